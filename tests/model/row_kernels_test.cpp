// The inner loops: the exponential's error, and that neither place, length, storage type nor level changes
// bits.
#include "weft/model/ops/cpu/row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "weft/base/random.h"
#include "weft/model/ops/cpu/cpu_level.h"
#include "weft/model/ops/cpu/kernels/row_kernels.h"

namespace weft::cpu {
namespace {

using Floats = std::vector<float>;
using Halves = std::vector<BFloat16>;

Floats random_floats(std::size_t n, std::uint64_t stream, double scale = 1) {
  Floats values(n);
  CounterRandom(11, RandomPurpose::test, stream).fill_normal(0, scale, values);
  return values;
}

bool same_bits(const Floats& a, const Floats& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<const RowLevel*> levels_of_this_machine() {
  std::vector<const RowLevel*> levels{&row_level_baseline};
  if (best_cpu_level() >= CpuLevel::avx2) levels.push_back(&row_level_avx2);
  if (best_cpu_level() >= CpuLevel::avx512) levels.push_back(&row_level_avx512);
  return levels;
}

TEST(Exponential, is_within_two_units_in_the_last_place_of_the_true_one) {
  Floats x;
  for (double v = -87.2; v < 88.2; v += 0.00137) x.push_back(static_cast<float>(v));
  for (const RowLevel* level : levels_of_this_machine()) {
    Floats y(x.size());
    level->softmax.exponential(x.data(), y.data(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = std::exp(static_cast<double>(x[i]));
      const double unit = std::ldexp(1.0, std::ilogb(expected) - 23);
      ASSERT_LT(std::abs(static_cast<double>(y[i]) - expected), 2 * unit) << x[i];
    }
  }
}

TEST(Exponential, keeps_its_edges) {
  const Floats x{0, -87.4f, -1e30f, -INFINITY, NAN, 1e30f, -0.0f};
  Floats y(x.size());
  softmax_kernels().exponential(x.data(), y.data(), x.size());
  EXPECT_EQ(y[0], 1);
  EXPECT_EQ(y[1], 0);
  EXPECT_EQ(y[2], 0);
  EXPECT_EQ(y[3], 0);
  EXPECT_TRUE(std::isnan(y[4]));
  EXPECT_GT(y[5], 2e38f);
  EXPECT_EQ(y[6], 1);
}

TEST(RowKernels, give_an_element_the_same_bits_wherever_it_stands) {
  const Floats x = random_floats(100, 1, 3), up = random_floats(100, 2);
  Floats y(100);
  row_kernels<float>().swiglu(x.data(), up.data(), y.data(), 100);
  for (std::size_t first = 0; first < 40; ++first)
    for (const std::size_t count : {std::size_t{1}, std::size_t{15}, std::size_t{17}, std::size_t{33}}) {
      Floats part(count);
      row_kernels<float>().swiglu(x.data() + first, up.data() + first, part.data(), count);
      ASSERT_TRUE(same_bits(part, Floats(y.data() + first, y.data() + first + count)))
          << first << " " << count;
    }
}

TEST(RowKernels, write_nothing_behind_the_end_of_a_row) {
  for (std::size_t n = 1; n < 40; ++n) {
    const Floats a = random_floats(n, 1), b = random_floats(n, 2);
    Floats y(n + 1, 77.0f);
    row_kernels<float>().add(a.data(), b.data(), y.data(), n);
    ASSERT_EQ(y[n], 77.0f);
    Halves h(n + 1, BFloat16{123});
    row_kernels<BFloat16>().scale(a.data(), 1, h.data(), n);
    ASSERT_EQ(h[n], BFloat16{123});
  }
}

TEST(RowKernels, of_bfloat16_are_those_of_float_rounded_once) {
  constexpr std::size_t n = 53;
  const auto halves = [&](std::uint64_t stream) {
    Halves values(n);
    const Floats from = random_floats(n, stream, 2);
    for (std::size_t i = 0; i < n; ++i) values[i] = to_bfloat16(from[i]);
    return values;
  };
  const auto widened = [&](const Halves& from) {
    Floats values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = to_float(from[i]);
    return values;
  };
  const Halves a = halves(1), b = halves(2), c = halves(3);
  const Floats wide_a = widened(a), wide_b = widened(b), wide_c = widened(c);
  const auto expect_rounded = [&](const Halves& got, const Floats& expected) {
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(got[i], to_bfloat16(expected[i])) << i;
  };
  const auto& narrow = row_kernels<BFloat16>();
  const auto& wide = row_kernels<float>();
  Halves y(n), z(n), w(n);
  Floats wide_y(n), wide_z(n), wide_w(n), gain(n), wide_gain(n);
  narrow.swiglu(a.data(), b.data(), y.data(), n);
  wide.swiglu(wide_a.data(), wide_b.data(), wide_y.data(), n);
  expect_rounded(y, wide_y);
  narrow.swiglu_backward(a.data(), b.data(), c.data(), y.data(), z.data(), w.data(), n);
  wide.swiglu_backward(wide_a.data(), wide_b.data(), wide_c.data(), wide_y.data(), wide_z.data(),
                       wide_w.data(), n);
  expect_rounded(y, wide_y);
  expect_rounded(z, wide_z);
  expect_rounded(w, wide_w);
  EXPECT_EQ(narrow.rms_norm(a.data(), b.data(), y.data(), n, 1e-6f),
            wide.rms_norm(wide_a.data(), wide_b.data(), wide_y.data(), n, 1e-6f));
  expect_rounded(y, wide_y);
  narrow.rms_norm_backward(a.data(), 0.5f, b.data(), c.data(), a.data(), y.data(), z.data(), gain.data(), n);
  wide.rms_norm_backward(wide_a.data(), 0.5f, wide_b.data(), wide_c.data(), wide_a.data(), wide_y.data(),
                         wide_z.data(), wide_gain.data(), n);
  expect_rounded(y, wide_y);
  expect_rounded(z, wide_z);
  EXPECT_TRUE(same_bits(gain, wide_gain));
  Floats logits = wide_a, wide_logits = wide_a;
  EXPECT_EQ(narrow.cross_entropy(logits.data(), n, 3, 0.1f, y.data()),
            wide.cross_entropy(wide_logits.data(), n, 3, 0.1f, wide_y.data()));
  expect_rounded(y, wide_y);
}

TEST(RowKernels, round_to_bfloat16_as_the_plain_function_does) {
  const Floats x{1.0f,      -0.0f, 1.00390625f, 1.01171875f,  3.4e38f,  INFINITY,
                 -INFINITY, NAN,   1e-30f,      -1.00390625f, 65535.0f, 0.1f};
  Halves y(x.size());
  row_kernels<BFloat16>().scale(x.data(), 1.0f, y.data(), x.size());
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i].bits, to_bfloat16(x[i]).bits) << x[i];
}

// The levels with FMA share all bits.
TEST(RowKernels, of_avx2_and_avx512_give_the_same_bits) {
  const auto levels = levels_of_this_machine();
  if (levels.size() < 3) GTEST_SKIP() << "this machine has no AVX-512";
  constexpr std::size_t n = 61;
  const Floats a = random_floats(n, 1, 2), b = random_floats(n, 2), c = random_floats(n, 3);
  const auto run = [&](const RowLevel& level) {
    Floats all, y(n), z(n), w(n), gain(n);
    level.float32.swiglu_backward(a.data(), b.data(), c.data(), y.data(), z.data(), w.data(), n);
    for (const Floats* part : {&y, &z, &w}) all.insert(all.end(), part->begin(), part->end());
    all.push_back(level.float32.rms_norm(a.data(), b.data(), y.data(), n, 1e-6f));
    level.float32.rms_norm_backward(a.data(), 0.7f, b.data(), c.data(), a.data(), z.data(), w.data(),
                                    gain.data(), n);
    for (const Floats* part : {&y, &z, &w, &gain}) all.insert(all.end(), part->begin(), part->end());
    Floats scores = a, dp = b, largest(5), inverse(5);
    const ScoreBlock block{12, 5, 8, 0.3f};
    level.softmax.softmax(block, scores.data(), largest.data(), inverse.data());
    for (const Floats* part : {&scores, &largest, &inverse})
      all.insert(all.end(), part->begin(), part->end());
    scores = a;
    level.softmax.softmax_backward(block, scores.data(), dp.data(), largest.data(), inverse.data());
    for (const Floats* part : {&scores, &dp}) all.insert(all.end(), part->begin(), part->end());
    Floats logits = a;
    all.push_back(static_cast<float>(level.float32.cross_entropy(logits.data(), n, 3, 0.1f, y.data())));
    all.insert(all.end(), y.begin(), y.end());
    return all;
  };
  EXPECT_TRUE(same_bits(run(*levels[1]), run(*levels[2])));
}

}  // namespace
}  // namespace weft::cpu
