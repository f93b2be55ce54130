#pragma once
// Byte-pair encoding (Sennrich, Haddow and Birch 2016) of one word, in the order of merges of Hugging Face's
// tokenizers: lowest rank first, leftmost of equals.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace weft {

inline constexpr std::uint32_t no_token = UINT32_MAX;

/// The vocabulary and the merges. Immutable once built; any number of threads may use it.
class BpeModel {
 public:
  struct Settings {
    bool symbols_are_bytes = false;    ///< words begin as bytes, and tokens are bytes; else as characters
    bool byte_fallback = false;        ///< characters without a token become the tokens of their bytes
    bool fuse_unknown = false;         ///< neighbouring unknown characters are one unknown token
    bool ignore_merges = false;        ///< a word that is a token is that token
    std::uint32_t unknown = no_token;  ///< stands for characters without a token; none: they are dropped
    std::array<std::uint32_t, 256> byte_tokens{};  ///< of byte_fallback, no_token where one is missing
  };
  struct Merge {
    std::uint32_t left;
    std::uint32_t right;
    std::uint32_t merged;
  };

  /// `tokens`: text and id; `merges`: in the order of their ranks, a pair given twice has its last rank.
  BpeModel(Settings settings, std::unordered_map<std::string, std::uint32_t> tokens,
           const std::vector<Merge>& merges);

  [[nodiscard]] std::optional<std::uint32_t> id_of(std::string_view token) const;
  /// Appends the tokens of one word. n log n in its length.
  void encode_word(std::string_view word, std::vector<std::uint32_t>& ids) const;

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const noexcept {
      return std::hash<std::string_view>()(text);
    }
  };
  struct Rule {
    std::uint32_t rank = no_token;
    std::uint32_t merged = no_token;
  };
  // Open addressing: a look-up is one or two cache lines.
  struct Slot {
    std::uint64_t pair = UINT64_MAX;
    Rule rule;
  };

  [[nodiscard]] Rule rule_of(std::uint32_t left, std::uint32_t right) const noexcept;
  void begin_symbols(std::string_view word, std::vector<std::uint32_t>& symbols) const;
  void merge_few(std::vector<std::uint32_t>& symbols) const;
  void merge_many(std::vector<std::uint32_t>& symbols) const;

  Settings settings_;
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> tokens_;
  std::array<std::uint32_t, 256> single_bytes_{};  // tokens of one byte
  std::vector<Slot> slots_;
  std::uint64_t mask_ = 0;
};

}  // namespace weft
