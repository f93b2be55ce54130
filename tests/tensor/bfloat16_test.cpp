#include "weft/tensor/bfloat16.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace weft {
namespace {

TEST(BFloat16, EveryNumberSurvivesTheWayToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x1'0000; ++bits) {
    const BFloat16 value{static_cast<std::uint16_t>(bits)};
    const float widened = to_float(value);
    if (std::isnan(widened)) {
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(widened))));
    } else {
      EXPECT_EQ(to_bfloat16(widened).bits, bits);
    }
  }
}

TEST(BFloat16, RoundsToTheNearestAndTiesToEven) {
  for (std::uint32_t bits = 0; bits < 0x7f7f; ++bits) {  // positive numbers that have a finite successor
    const auto lower = std::bit_cast<float>(bits << 16);
    const auto middle = std::bit_cast<float>((bits << 16) | 0x8000u);
    const std::uint32_t even = bits + (bits & 1u);
    EXPECT_EQ(to_bfloat16(middle).bits, even);
    EXPECT_EQ(to_bfloat16(-middle).bits, even | 0x8000u);
    EXPECT_EQ(to_bfloat16(std::nextafter(middle, 0.0f)).bits, bits);
    EXPECT_EQ(to_bfloat16(std::nextafter(middle, 2 * middle + 1)).bits, bits + 1);
    EXPECT_EQ(to_bfloat16(lower).bits, bits);
  }
}

TEST(BFloat16, KeepsInfinityAndNaNAndOverflowsToInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_float(to_bfloat16(infinity)), infinity);
  EXPECT_EQ(to_float(to_bfloat16(-infinity)), -infinity);
  EXPECT_EQ(to_float(to_bfloat16(std::numeric_limits<float>::max())), infinity);
  EXPECT_TRUE(
      std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f80'0001u)))));  // payload in the lower half
}

}  // namespace
}  // namespace weft
