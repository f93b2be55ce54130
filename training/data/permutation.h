#pragma once
// The order of an epoch: a permutation of [0, n) that is computed place by place, so nothing is stored and
// any place can be asked for first.
#include <cstdint>

#include "weft/base/random.h"

namespace weft {

/// A Feistel network of eight Philox rounds over the next power of two, walked until it falls into [0, n)
/// (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). A pure function of (seed, epoch, n).
class Permutation {
 public:
  /// `epoch` below 2^56, `size` from 1 to 2^62.
  Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size);

  /// Where place `i` < size goes.
  [[nodiscard]] std::uint64_t at(std::uint64_t i) const noexcept;

 private:
  [[nodiscard]] std::uint64_t network(std::uint64_t value) const noexcept;

  CounterRandom random_;
  std::uint64_t size_;
  int left_bits_;
  int right_bits_;
};

}  // namespace weft
