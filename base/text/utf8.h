#pragma once
// UTF-8 from outside.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

/// One character at the front of some bytes.
struct Utf8Character {
  char32_t code_point = 0;
  std::uint8_t length =
      0;  ///< bytes; of a malformed one those of its maximal part that could begin a character
  bool valid = false;
  bool cut_off = false;  ///< malformed only because the bytes end: more of them might complete it
};
/// `bytes` is not empty.
[[nodiscard]] Utf8Character first_character(std::string_view bytes) noexcept;

/// Appends `code_point`, which is no surrogate.
void append_utf8(std::string& text, char32_t code_point);

/// `bytes` with U+FFFD for every malformed part.
struct RepairedText {
  std::string text;
  std::size_t replaced = 0;
};
[[nodiscard]] RepairedText repair_utf8(std::string_view bytes);
[[nodiscard]] bool is_valid_utf8(std::string_view bytes) noexcept;

}  // namespace weft
