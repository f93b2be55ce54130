#include "weft/training/config/binary_scalar.h"

#include <openssl/evp.h>

#include <algorithm>

namespace weft {
namespace {

const unsigned char* pointer(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

std::string to_base64(std::string_view bytes) {
  const std::string source(bytes);
  std::string text((source.size() + 2) / 3 * 4 + 1, '\0');  // OpenSSL ends it with a zero byte
  const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()), pointer(source),
                                   static_cast<int>(source.size()));
  text.resize(static_cast<std::size_t>(size));
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string plain(text);
  std::erase_if(plain, [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; });
  const std::size_t padding = plain.size() - std::min(plain.size(), plain.find_last_not_of('=') + 1);
  if (plain.size() % 4 != 0 || padding > 2) return std::nullopt;
  if (plain.find_first_not_of(digits) < plain.size() - padding) return std::nullopt;
  std::string bytes(plain.size() / 4 * 3, '\0');
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), pointer(plain),
                                   static_cast<int>(plain.size()));
  if (size < 0) return std::nullopt;
  bytes.resize(bytes.size() - padding);
  return bytes;
}

}  // namespace weft
