#pragma once
#include <cstdint>

#include "weft/training/data/dataset.h"

namespace weft {

/// `dataset: null`: uniform token ids of the counter-based generator, keyed by (seed, sample, position).
class RandomTokens final : public Dataset {
 public:
  RandomTokens(std::uint64_t seed, std::uint32_t vocab_size) : seed_(seed), vocab_size_(vocab_size) {}

  [[nodiscard]] std::uint64_t sample_count() const override { return endless; }
  void read(std::uint64_t n, std::span<std::int32_t> tokens) const override;

 private:
  std::uint64_t seed_;
  std::uint32_t vocab_size_;
};

}  // namespace weft
