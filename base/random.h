#pragma once
// Random numbers that are functions of their place, not of a history: Philox4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3", SC'11), keyed by (seed, purpose, stream, index). Any rank, thread or
// restart that asks for the same place gets the same bits.
//
// Promise: only integer arithmetic and the IEEE operations + - * / sqrt on doubles are used, no function of
// the C library, so the values do not depend on the libm or the CPU. The distributions' formulas are part of
// the promise.
#include <array>
#include <cstdint>
#include <span>

namespace weft {

/// What the numbers are for, so that two uses of one seed never share numbers. The values are fixed for ever:
/// changing one changes every run.
enum class RandomPurpose : std::uint8_t {
  weights = 1,        ///< initial weights; stream = parameter, index = element
  random_tokens = 2,  ///< `dataset: null`; stream = sample, index = position
  shuffle = 3,        ///< order of an epoch's samples; stream = epoch
  simulation = 4,     ///< jitter of simulated pipelines; stream = 0 ops, 1 messages
  test = 255,         ///< tests and benchmarks
};

/// The numbers of one (seed, purpose, stream). Cheap to make and to copy; const use from any thread.
/// `u32`, `u64`, `uniform` and `normal` cut the same stream in different ways: use one of them per stream.
class CounterRandom {
 public:
  /// `stream` is below 2^56; throws Error otherwise.
  CounterRandom(std::uint64_t seed, RandomPurpose purpose, std::uint64_t stream);

  /// The index-th number of 32 or 64 uniform bits.
  [[nodiscard]] std::uint32_t u32(std::uint64_t index) const noexcept;
  [[nodiscard]] std::uint64_t u64(std::uint64_t index) const noexcept;
  /// An integer in [0, bound), bound > 0; off uniform by less than bound / 2^64.
  [[nodiscard]] std::uint32_t below(std::uint32_t bound, std::uint64_t index) const noexcept;
  /// In [0, 1), a multiple of 2^-53.
  [[nodiscard]] double uniform(std::uint64_t index) const noexcept;
  /// Normally distributed, mean 0, variance 1 (Box-Muller; at most 8.6 in size).
  [[nodiscard]] double normal(std::uint64_t index) const noexcept;
  /// out[i] = standard_deviation * normal(first + i), rounded to float: the fast way to fill a tensor.
  void fill_normal(std::uint64_t first, double standard_deviation, std::span<float> out) const noexcept;

 private:
  [[nodiscard]] std::array<std::uint32_t, 4> block(std::uint64_t number) const noexcept;
  [[nodiscard]] std::array<double, 2> normal_pair(std::uint64_t number) const noexcept;

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 2> stream_;
};

/// One block of Philox4x32-10: four words from a counter and a key.
[[nodiscard]] std::array<std::uint32_t, 4> philox_block(const std::array<std::uint32_t, 4>& counter,
                                                        const std::array<std::uint32_t, 2>& key) noexcept;

}  // namespace weft
