#pragma once
// One file of token ids as a dataset.
#include <cstdint>
#include <string>

#include "weft/training/data/dataset.h"
#include "weft/training/data/token_windows.h"

namespace weft {

/// Sample n is window n of the file (sequence_length + 1 tokens), or the n-th in one order drawn from the
/// seed. Samples do not repeat.
class TokenFile final : public Dataset {
 public:
  /// `window` = sequence_length + 1. Throws what TokenWindows throws, and Error for a file shorter than one
  /// sample.
  TokenFile(const std::string& path, std::uint64_t token_bytes, std::uint64_t window,
            std::uint64_t vocab_size, bool shuffle, std::uint64_t seed);

  [[nodiscard]] std::uint64_t sample_count() const override { return windows_.window_count(); }
  void read(std::uint64_t n, std::span<std::int32_t> tokens) const override;
  void check() const override { windows_.check(); }

 private:
  TokenWindows windows_;
  bool shuffle_;
  std::uint64_t seed_;
};

}  // namespace weft
