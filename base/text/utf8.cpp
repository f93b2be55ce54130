#include "weft/base/text/utf8.h"

#include <cstring>

namespace weft {
namespace {

constexpr std::string_view replacement = "\xEF\xBF\xBD";

// Length of the run of ASCII at the front, by eights.
std::size_t ascii_length(std::string_view bytes) noexcept {
  std::size_t n = 0;
  for (std::uint64_t word; n + sizeof word <= bytes.size(); n += sizeof word) {
    std::memcpy(&word, bytes.data() + n, sizeof word);
    if ((word & 0x8080808080808080u) != 0) break;
  }
  while (n < bytes.size() && static_cast<unsigned char>(bytes[n]) < 0x80) ++n;
  return n;
}

}  // namespace

// The table of well-formed byte sequences of the Unicode standard (3-7).
Utf8Character first_character(std::string_view bytes) noexcept {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {lead, 1, true, false};
  std::uint8_t length = 0;
  unsigned char low = 0x80, high = 0xBF;
  char32_t code_point = 0;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
    code_point = lead & 0x1Fu;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    code_point = lead & 0x0Fu;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    code_point = lead & 0x07u;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return {0xFFFD, 1, false, false};
  }
  for (std::uint8_t i = 1; i < length; ++i) {
    if (i == bytes.size()) return {0xFFFD, i, false, true};
    if (byte(i) < low || byte(i) > high) return {0xFFFD, i, false, false};
    code_point = (code_point << 6) | (byte(i) & 0x3Fu);
    low = 0x80;
    high = 0xBF;
  }
  return {code_point, length, true, false};
}

void append_utf8(std::string& text, char32_t c) {
  const auto put = [&](char32_t byte) { text += static_cast<char>(static_cast<unsigned char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | (c >> 6));
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | (c >> 12));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | (c >> 18));
    put(0x80 | ((c >> 12) & 0x3F));
    put(0x80 | ((c >> 6) & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

RepairedText repair_utf8(std::string_view bytes) {
  RepairedText result;
  result.text.reserve(bytes.size());
  while (!bytes.empty()) {
    const std::size_t ascii = ascii_length(bytes);
    result.text.append(bytes.substr(0, ascii));
    bytes.remove_prefix(ascii);
    if (bytes.empty()) break;
    const Utf8Character character = first_character(bytes);
    if (character.valid) {
      result.text.append(bytes.substr(0, character.length));
    } else {
      result.text.append(replacement);
      ++result.replaced;
    }
    bytes.remove_prefix(character.length);
  }
  return result;
}

bool is_valid_utf8(std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    bytes.remove_prefix(ascii_length(bytes));
    if (bytes.empty()) return true;
    const Utf8Character character = first_character(bytes);
    if (!character.valid) return false;
    bytes.remove_prefix(character.length);
  }
  return true;
}

}  // namespace weft
