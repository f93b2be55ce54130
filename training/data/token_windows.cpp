#include "weft/training/data/token_windows.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"

namespace weft {

TokenWindows::TokenWindows(const std::string& path, std::uint64_t token_bytes, std::uint64_t window,
                           std::uint64_t vocab_size)
    : file_(path), token_bytes_(token_bytes), window_(window), vocab_size_(vocab_size) {
  if (bytes() == 0) throw Error(path + " is empty");
  if (bytes() % token_bytes != 0) {
    throw Error(fmt::format("{} has {} bytes, no multiple of {}: the last token starts at offset {}", path,
                            bytes(), token_bytes, bytes() / token_bytes * token_bytes));
  }
}

void TokenWindows::read_from(std::uint64_t first, std::span<std::int32_t> tokens) const {
  // The file's bytes lie at the end of where they widen to, which they leave behind them from the start on.
  const auto packed = std::as_writable_bytes(tokens).last(tokens.size() * token_bytes_);
  file_.read(first * token_bytes_, packed);
  for (std::size_t k = 0; k < tokens.size(); ++k) {
    const std::byte* at = packed.data() + k * token_bytes_;
    const std::uint32_t value = token_bytes_ == 2 ? load_le<std::uint16_t>(at) : load_le<std::uint32_t>(at);
    if (value >= vocab_size_) {
      throw Error(fmt::format("{} holds token {} at offset {}, outside the vocabulary of {}", path(), value,
                              (first + k) * token_bytes_, vocab_size_));
    }
    tokens[k] = static_cast<std::int32_t>(value);
  }
}

void TokenWindows::read(std::uint64_t i, std::span<std::int32_t> tokens) const {
  read_from(i * window_, tokens);
}

void TokenWindows::check() const {
  const std::uint64_t end = window_count() * window_;
  std::vector<std::int32_t> piece(std::min<std::uint64_t>(end, 1 << 18));
  for (std::uint64_t at = 0; at < end; at += piece.size()) {
    piece.resize(std::min<std::uint64_t>(piece.size(), end - at));
    read_from(at, piece);
  }
}

}  // namespace weft
