#include "weft/base/text/foreign_text.h"

#include <fmt/core.h>

#include "weft/base/text/utf8.h"

namespace weft {
namespace {

constexpr std::size_t longest_name = 120;

/// Whether a terminal shows the character, and only shows it.
bool is_visible(char32_t c) {
  const auto between = [c](char32_t low, char32_t high) { return c >= low && c <= high; };
  return !(c < 0x20 || between(0x7f, 0x9f) ||  // control characters
           between(0x200b, 0x200f) || between(0x202a, 0x202e) || between(0x2060, 0x206f) ||  // marks
           between(0x2028, 0x2029) || c == 0xfeff || between(0xfffe, 0xffff));
}

}  // namespace

std::string to_utf8(std::string_view text) { return repair_utf8(text).text; }

std::string printable(std::string_view text, std::size_t longest) {
  const bool is_cut = text.size() > longest;
  text = text.substr(0, longest);
  std::string result;
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    const std::string_view bytes = text.substr(0, character.length);
    if (character.valid && is_visible(character.code_point)) {
      result += bytes;
    } else {
      for (const char byte : bytes) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    text.remove_prefix(bytes.size());
  }
  return is_cut ? result + "..." : result;
}

std::string quoted_name(std::string_view name) { return '"' + printable(name, longest_name) + '"'; }

std::string shown_name(std::string_view name) {
  const bool is_plain = !name.empty() && name.find_first_of(" \"") == std::string_view::npos &&
                        printable(name, longest_name) == name;
  return is_plain ? std::string(name) : quoted_name(name);
}

}  // namespace weft
