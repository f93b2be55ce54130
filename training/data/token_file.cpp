#include "weft/training/data/token_file.h"

#include <fmt/format.h>

#include "weft/base/error.h"
#include "weft/training/data/permutation.h"

namespace weft {

TokenFile::TokenFile(const std::string& path, std::uint64_t token_bytes, std::uint64_t window,
                     std::uint64_t vocab_size, bool shuffle, std::uint64_t seed)
    : windows_(path, token_bytes, window, vocab_size), shuffle_(shuffle), seed_(seed) {
  if (sample_count() == 0) {
    throw Error(
        fmt::format("{} ends at offset {}, one sample needs sequence_length + 1 = {} tokens of {} bytes",
                    path, windows_.bytes(), window, token_bytes));
  }
}

void TokenFile::read(std::uint64_t n, std::span<std::int32_t> tokens) const {
  if (n >= sample_count()) {
    throw Error(fmt::format("{} has {} samples and ends at offset {}, sample {} is wanted", windows_.path(),
                            sample_count(), windows_.bytes(), n));
  }
  windows_.read(shuffle_ ? Permutation(seed_, 0, sample_count()).at(n) : n, tokens);
}

}  // namespace weft
