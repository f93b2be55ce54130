#pragma once
// Tokens that are found in a text before it is cut into words: special ones and those added to a vocabulary.
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct AddedToken {
  std::string content;
  std::uint32_t id = 0;
  bool single_word = false;  ///< not inside of a longer word
  bool lstrip = false;       ///< takes the blanks before it
  bool rstrip = false;       ///< and behind it
  bool normalized = false;   ///< looked for in the normalized text
  bool special = false;
};

/// Finds tokens, the longest where several begin, from left to right.
class AddedTokens {
 public:
  /// Tokens without text are left out.
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Part {
    std::string_view text;
    const AddedToken* token;  ///< null for the text between tokens
  };
  /// Appends the parts of `text` (valid UTF-8).
  void split(std::string_view text, std::vector<Part>& parts) const;

 private:
  [[nodiscard]] const AddedToken* longest_at(std::string_view text) const noexcept;
  std::vector<AddedToken> tokens_;                                       // by first byte, then longest first
  std::array<std::pair<std::uint32_t, std::uint32_t>, 256> starting_{};  // [first byte]: from, to
};

}  // namespace weft
