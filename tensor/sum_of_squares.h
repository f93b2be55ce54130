#pragma once
// The sum of squares of one range, in an order that nothing but its length decides.
#include <cstddef>
#include <span>

namespace weft {

/// Sum of squares in double: eight chains over the elements modulo eight, then a fixed tree.
[[nodiscard]] inline double sum_of_squares(std::span<const float> values) noexcept {
  double sums[8] = {};
  const std::size_t whole = values.size() / 8 * 8;
  for (std::size_t i = 0; i < whole; i += 8)
    for (std::size_t k = 0; k < 8; ++k) {
      const double x = values[i + k];
      sums[k] += x * x;
    }
  for (std::size_t i = whole; i < values.size(); ++i) {
    const double x = values[i];
    sums[i - whole] += x * x;
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

}  // namespace weft
