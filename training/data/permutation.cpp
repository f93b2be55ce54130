#include "weft/training/data/permutation.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace weft {

Permutation::Permutation(std::uint64_t seed, std::uint64_t epoch, std::uint64_t size)
    : random_(seed, RandomPurpose::shuffle, epoch), size_(size) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(size - 1)));
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
}

std::uint64_t Permutation::network(std::uint64_t value) const noexcept {
  constexpr std::uint64_t rounds = 8;  // even, so that both halves end at their own widths
  int left_bits = left_bits_;
  int right_bits = right_bits_;
  std::uint64_t left = value >> right_bits;
  std::uint64_t right = value & ((1ULL << right_bits) - 1);
  for (std::uint64_t round = 0; round < rounds; ++round) {
    // One number per (right half, round): halves have at most 31 bits.
    const std::uint64_t mask = (1ULL << left_bits) - 1;
    left ^= random_.u64((right * rounds) + round) & mask;
    std::swap(left, right);
    std::swap(left_bits, right_bits);
  }
  return (left << right_bits) | right;
}

std::uint64_t Permutation::at(std::uint64_t i) const noexcept {
  do {
    i = network(i);
  } while (i >= size_);
  return i;
}

}  // namespace weft
