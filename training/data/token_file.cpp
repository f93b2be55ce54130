#include "weft/training/data/token_file.h"

#include <fmt/format.h>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"
#include "weft/training/data/permutation.h"

namespace weft {

TokenFile::TokenFile(const std::string& path, std::uint64_t token_bytes, std::uint64_t window,
                     std::uint64_t vocab_size, bool shuffle, std::uint64_t seed)
    : path_(path),
      file_(path),
      token_bytes_(token_bytes),
      window_(window),
      vocab_size_(vocab_size),
      shuffle_(shuffle),
      seed_(seed) {
  const std::uint64_t bytes = file_.bytes().size();
  if (bytes % token_bytes != 0) {
    throw Error(fmt::format("{} has {} bytes, no multiple of {}: the last token starts at offset {}", path,
                            bytes, token_bytes, bytes / token_bytes * token_bytes));
  }
  samples_ = bytes / token_bytes / window;
  if (samples_ == 0) {
    throw Error(
        fmt::format("{} ends at offset {}, one sample needs sequence_length + 1 = {} tokens of {} bytes",
                    path, bytes, window, token_bytes));
  }
}

std::uint64_t TokenFile::token(std::uint64_t i) const noexcept {
  const std::byte* at = file_.bytes().data() + i * token_bytes_;
  return token_bytes_ == 2 ? load_le<std::uint16_t>(at) : load_le<std::uint32_t>(at);
}

void TokenFile::refuse_token(std::uint64_t i) const {
  throw Error(fmt::format("{} holds token {} at offset {}, outside the vocabulary of {}", path_, token(i),
                          i * token_bytes_, vocab_size_));
}

void TokenFile::read(std::uint64_t n, std::span<std::int32_t> tokens) const {
  if (n >= samples_) {
    throw Error(fmt::format("{} has {} samples and ends at offset {}, sample {} is wanted", path_, samples_,
                            file_.bytes().size(), n));
  }
  const std::uint64_t sample = shuffle_ ? Permutation(seed_, 0, samples_).at(n) : n;
  const std::uint64_t first = sample * window_;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const std::uint64_t value = token(first + i);
    if (value >= vocab_size_) refuse_token(first + i);
    tokens[i] = static_cast<std::int32_t>(value);
  }
}

void TokenFile::check_tokens() const {
  for (std::uint64_t i = 0; i < samples_ * window_; ++i) {
    if (token(i) >= vocab_size_) refuse_token(i);
  }
}

}  // namespace weft
