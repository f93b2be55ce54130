#include "weft/training/data/token_windows.h"

#include <fmt/format.h>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"

namespace weft {

TokenWindows::TokenWindows(const std::string& path, std::uint64_t token_bytes, std::uint64_t window,
                           std::uint64_t vocab_size)
    : path_(path), file_(path), token_bytes_(token_bytes), window_(window), vocab_size_(vocab_size) {
  if (bytes() % token_bytes != 0) {
    throw Error(fmt::format("{} has {} bytes, no multiple of {}: the last token starts at offset {}", path,
                            bytes(), token_bytes, bytes() / token_bytes * token_bytes));
  }
}

std::uint64_t TokenWindows::token(std::uint64_t i) const noexcept {
  const std::byte* at = file_.bytes().data() + i * token_bytes_;
  return token_bytes_ == 2 ? load_le<std::uint16_t>(at) : load_le<std::uint32_t>(at);
}

void TokenWindows::refuse(std::uint64_t i) const {
  throw Error(fmt::format("{} holds token {} at offset {}, outside the vocabulary of {}", path_, token(i),
                          i * token_bytes_, vocab_size_));
}

void TokenWindows::read(std::uint64_t i, std::span<std::int32_t> tokens) const {
  const std::uint64_t first = i * window_;
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    const std::uint64_t value = token(first + k);
    if (value >= vocab_size_) refuse(first + k);
    tokens[k] = static_cast<std::int32_t>(value);
  }
}

void TokenWindows::check() const {
  for (std::uint64_t i = 0; i < window_count() * window_; ++i) {
    if (token(i) >= vocab_size_) refuse(i);
  }
}

}  // namespace weft
