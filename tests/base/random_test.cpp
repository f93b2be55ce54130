#include "weft/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numbers>
#include <set>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers published with Random123.
TEST(Philox, GivesThePublishedAnswers) {
  EXPECT_EQ(philox_block({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox_block({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox_block({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(CounterRandom, KeepsItsNumbersForEver) {
  // Written down once: a change here changes the initial weights and the data of every run.
  const CounterRandom random(42, RandomPurpose::test, 7);
  EXPECT_EQ(random.u32(0), philox_block({0, 0, 7, 255}, {42, 0})[0]);
  EXPECT_EQ(random.u32(6), philox_block({1, 0, 7, 255}, {42, 0})[2]);
  EXPECT_EQ(random.u64(3) >> 32, philox_block({1, 0, 7, 255}, {42, 0})[3]);
  const CounterRandom wide(0x123456789abcdef0ULL, RandomPurpose::weights, (1ULL << 56) - 1);
  EXPECT_EQ(wide.u32(0x4000000000ULL),
            philox_block({0, 0x10, 0xffffffff, 0xffffff01}, {0x9abcdef0, 0x12345678})[0]);
}

TEST(CounterRandom, SeparatesSeedsPurposesStreamsAndPlaces) {
  std::set<std::uint64_t> seen;
  for (std::uint64_t seed : {0ULL, 1ULL, 1ULL << 32}) {
    for (auto purpose : {RandomPurpose::weights, RandomPurpose::random_tokens, RandomPurpose::shuffle}) {
      for (std::uint64_t stream : {0ULL, 1ULL, 1ULL << 32, 1ULL << 40}) {
        for (std::uint64_t index : {0ULL, 1ULL, 2ULL, 1ULL << 40}) {
          seen.insert(CounterRandom(seed, purpose, stream).u64(index));
        }
      }
    }
  }
  EXPECT_EQ(seen.size(), 3U * 3 * 4 * 4);
}

TEST(CounterRandom, RefusesAStreamThatWouldReachIntoThePurpose) {
  EXPECT_THROW(CounterRandom(1, RandomPurpose::test, 1ULL << 56), Error);
}

TEST(CounterRandom, DrawsBelowTheBoundAndReachesEveryValue) {
  const CounterRandom random(3, RandomPurpose::test, 0);
  std::vector<int> counts(7);
  for (std::uint64_t i = 0; i < 7000; ++i) ++counts.at(random.below(7, i));
  for (int count : counts) EXPECT_NEAR(count, 1000, 150);
  EXPECT_EQ(random.below(1, 5), 0U);
  EXPECT_LT(random.below(~0U, 5), ~0U);
}

TEST(CounterRandom, NormalNumbersFollowBoxMullerWithinTheLastBits) {
  const CounterRandom random(11, RandomPurpose::test, 2);
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::uint64_t pair = i / 2;
    const double u = (static_cast<double>(random.u64(2 * pair) >> 11) + 1.0) * 0x1p-53;
    const double angle = 2.0 * std::numbers::pi * random.uniform(2 * pair + 1);
    const double radius = std::sqrt(-2.0 * std::log(u));
    const double expected = radius * (i % 2 == 0 ? std::cos(angle) : std::sin(angle));
    ASSERT_NEAR(random.normal(i), expected, 4e-15) << "index " << i;
  }
}

TEST(CounterRandom, NormalNumbersHaveTheMomentsOfTheDistribution) {
  const CounterRandom random(5, RandomPurpose::test, 0);
  constexpr int n = 200000;
  double sum = 0;
  double squares = 0;
  double fourth = 0;
  for (int i = 0; i < n; ++i) {
    const double x = random.normal(static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
    fourth += x * x * x * x;
  }
  EXPECT_NEAR(sum / n, 0.0, 0.01);
  EXPECT_NEAR(squares / n, 1.0, 0.02);
  EXPECT_NEAR(fourth / n, 3.0, 0.15);
}

TEST(CounterRandom, FillsTheSameNumbersWhateverTheCuts) {
  const CounterRandom random(9, RandomPurpose::test, 1);
  std::vector<float> whole(101);
  random.fill_normal(3, 0.02, whole);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    ASSERT_EQ(whole[i], static_cast<float>(0.02 * random.normal(3 + i)));
  }
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    std::vector<float> parts(whole.size());
    random.fill_normal(3, 0.02, std::span(parts).first(cut));
    random.fill_normal(3 + cut, 0.02, std::span(parts).subspan(cut));
    ASSERT_EQ(std::memcmp(parts.data(), whole.data(), whole.size() * sizeof(float)), 0) << "cut " << cut;
  }
}

}  // namespace
}  // namespace weft
