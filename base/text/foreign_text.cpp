#include "weft/base/text/foreign_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstdint>

namespace weft {
namespace {

constexpr std::size_t longest_name = 120;

/// The bytes of the character that `text` starts with; 0 when it starts with none. U+FFFE and U+FFFF are no
/// characters (XML refuses them).
std::size_t character_size(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  if (byte(0) < 0x80) return 1;
  const std::size_t size = byte(0) < 0xc0   ? 0
                           : byte(0) < 0xe0 ? 2
                           : byte(0) < 0xf0 ? 3
                           : byte(0) < 0xf8 ? 4
                                            : 0;
  std::uint32_t code = byte(0) & (0x7fu >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0u) != 0x80) return 0;
    code = code << 6 | (byte(i) & 0x3fu);
  }
  static constexpr std::uint32_t smallest[] = {UINT32_MAX, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code <= 0xdfff;
  return code < smallest[size] || code > 0x10ffff || surrogate || code == 0xfffe || code == 0xffff ? 0 : size;
}

/// Whether a terminal shows the character that `text` is, and only shows it.
bool is_visible(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (text.size() == 1) return first >= 0x20 && first < 0x7f;
  if (first == 0xc2)
    return static_cast<unsigned char>(text[1]) >= 0xa0;  // U+0080 to U+009F are control characters
  // zero-width and direction marks, line and paragraph separators, byte order mark
  const auto between = [&](std::string_view low, std::string_view high) {
    return text >= low && text <= high;
  };
  return !(text.size() == 3 && (between("\u200b", "\u200f") || between("\u2028", "\u202e") ||
                                between("\u2060", "\u206f") || text == "\ufeff"));
}

}  // namespace

std::string to_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    result += size == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return result;
}

std::string printable(std::string_view text, std::size_t longest) {
  const bool is_cut = text.size() > longest;
  text = text.substr(0, longest);
  std::string result;
  while (!text.empty()) {
    const std::size_t size = character_size(text);
    const std::string_view character = text.substr(0, std::max<std::size_t>(size, 1));
    if (size > 0 && is_visible(character)) {
      result += character;
    } else {
      for (const char byte : character) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    }
    text.remove_prefix(character.size());
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
