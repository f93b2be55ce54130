#include "weft/model/ops/cpu/matmul.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "weft/base/error.h"
#include "weft/model/ops/cpu/cpu_level.h"
#include "weft/model/ops/cpu/kernels/panels.h"
#include "weft/model/ops/cpu/matmul_kernel.h"
#include "weft/tests/model/values.h"
#include "weft/tests/support/allocation_count.h"

namespace weft::cpu {
namespace {

using test::Memory;
using test::Values;

template <class T>
struct Weight {
  Weight(ThreadTeam& team, Matrix<const T> w)
      : memory(PackedWeight<T>::bytes(w.rows, w.columns)), packed(w.rows, w.columns, memory.span()) {
    packed.pack(team, w);
  }
  Memory<std::byte> memory;
  PackedWeight<T> packed;
};

struct Sizes {
  std::size_t rows, out, in;
};

/// Every summed dimension is 449, 1408 and 2049 once; the other ones are odd, or small, or fill whole panels.
constexpr Sizes all_sizes[] = {{1, 1, 1},      {7, 5, 3},      {100, 64, 449}, {33, 70, 1408},
                               {5, 131, 2049}, {70, 449, 64},  {97, 1408, 33}, {3, 2049, 40},
                               {449, 33, 70},  {1408, 32, 64}, {2049, 19, 9},  {110, 530, 20}};

/// y, dx (of two weights that share the input) and dw of one layer.
template <class T>
struct Layer {
  explicit Layer(Sizes s)
      : sizes(s),
        x(s.rows, s.in, 1),
        w(s.out, s.in, 2),
        second_w(s.out / 2 + 1, s.in, 3),
        dy(s.rows, s.out, 4),
        second_dy(s.rows, s.out / 2 + 1, 5),
        y(s.rows, s.out),
        dx(s.rows, s.in),
        dw(s.out, s.in, 6) {}

  /// Computes everything in pieces of at most `row_cut` rows and `column_cut` columns of the result.
  void run(int threads, std::size_t row_cut, std::size_t column_cut) {
    ThreadTeam team(threads);
    const auto pieces = [&](std::size_t rows, std::size_t columns, auto&& piece) {
      for (std::size_t row = 0; row < rows; row += row_cut) {
        for (std::size_t column = 0; column < columns; column += column_cut) {
          piece(row, std::min(row_cut, rows - row), column, std::min(column_cut, columns - column));
        }
      }
    };
    pieces(sizes.rows, sizes.out,
           [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
             const Weight<T> part(team, w.input().row_range(column, columns));
             linear_forward<T>(team, x.input().row_range(row, rows), part.packed,
                               y.view().row_range(row, rows).column_range(column, columns));
           });
    pieces(sizes.rows, sizes.in,
           [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
             const Weight<T> first(team, w.input().column_range(column, columns));
             const Weight<T> second(team, second_w.input().column_range(column, columns));
             const InputGradientTerm<T> terms[] = {{dy.input().row_range(row, rows), &first.packed},
                                                   {second_dy.input().row_range(row, rows), &second.packed}};
             linear_backward_input<T>(team, terms,
                                      dx.view().row_range(row, rows).column_range(column, columns));
           });
    pieces(sizes.out, sizes.in,
           [&](std::size_t row, std::size_t rows, std::size_t column, std::size_t columns) {
             Memory<std::byte> workspace(backward_weight_workspace<T>(sizes.rows, rows, columns));
             linear_backward_weight<T>(
                 team, dy.input().column_range(row, rows), x.input().column_range(column, columns),
                 dw.view().row_range(row, rows).column_range(column, columns), workspace.span());
           });
  }

  [[nodiscard]] std::vector<std::uint32_t> bits() {
    std::vector<std::uint32_t> all = y.bits();
    for (const auto& part : {dx.bits(), dw.bits()}) all.insert(all.end(), part.begin(), part.end());
    return all;
  }

  Sizes sizes;
  Values<T> x, w, second_w, dy, second_dy, y, dx;
  Values<float> dw;
};

/// The chain that every element must be: in order, fused where the level fuses.
struct Chain {
  float sum = 0;
  template <class T>
  void add(T a, T b) {
    sum = cpu_level() == CpuLevel::baseline ? to_float(a) * to_float(b) + sum
                                            : std::fma(to_float(a), to_float(b), sum);
  }
};

/// The same sum in double, with a bound for the error of any order of summation.
struct Exact {
  explicit Exact(double start = 0) : sum(start), size(std::abs(start)) {}
  double sum, size;
  std::size_t count = 1;
  template <class T>
  void add(T a, T b) {
    const double product = static_cast<double>(to_float(a)) * to_float(b);
    sum += product;
    size += std::abs(product);
    ++count;
  }
  template <class T>
  void expect_near(T value) const {
    const double last_rounding = std::is_same_v<T, BFloat16> ? std::abs(sum) / 256 : 0;
    EXPECT_NEAR(to_float(value), sum, size * static_cast<double>(count) * 6e-8 + last_rounding);
  }
};

/// Calls visit(result, element) for every element of y, dx, dw, where result is a Sum that has walked the
/// chain.
template <class Sum, class T, class Visit>
void walk(Layer<T>& layer, Matrix<const float> old_dw, Visit visit) {
  const auto [rows, out, in] = layer.sizes;
  const Matrix<const T> x = layer.x.input(), w = layer.w.input(), second_w = layer.second_w.input(),
                        dy = layer.dy.input(), second_dy = layer.second_dy.input();
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t o = 0; o < out; ++o) {
      Sum sum;
      for (std::size_t i = 0; i < in; ++i) sum.add(x.at(r, i), w.at(o, i));
      visit(sum, layer.y.view().at(r, o));
    }
    for (std::size_t i = 0; i < in; ++i) {
      Sum sum;
      for (std::size_t o = 0; o < out; ++o) sum.add(dy.at(r, o), w.at(o, i));
      for (std::size_t o = 0; o < out / 2 + 1; ++o) sum.add(second_dy.at(r, o), second_w.at(o, i));
      visit(sum, layer.dx.view().at(r, i));
    }
  }
  for (std::size_t o = 0; o < out; ++o) {
    for (std::size_t i = 0; i < in; ++i) {
      Sum sum{old_dw.at(o, i)};
      for (std::size_t r = 0; r < rows; ++r) sum.add(dy.at(r, o), x.at(r, i));
      visit(sum, layer.dw.view().at(o, i));
    }
  }
}

template <class T>
class Matmul : public testing::Test {};
using Types = testing::Types<float, BFloat16>;
TYPED_TEST_SUITE(Matmul, Types);

TYPED_TEST(Matmul, EveryElementIsTheSumInDoubleUpToRounding) {
  for (const Sizes& sizes : all_sizes) {
    Layer<TypeParam> layer(sizes);
    Values<float> old_dw = layer.dw;
    layer.run(2, 10'000, 10'000);
    walk<Exact>(layer, old_dw.input(), [](const Exact& sum, auto value) { sum.expect_near(value); });
  }
}

TYPED_TEST(Matmul, EveryElementIsOneChainInOrder) {
  if (std::is_same_v<TypeParam, BFloat16> && has_bfloat16_kernel()) {
    GTEST_SKIP() << "the sums inside an AMX tile are the hardware's; the tests of cuts cover it";
  }
  for (const Sizes& sizes : all_sizes) {
    Layer<TypeParam> layer(sizes);
    Values<float> old_dw = layer.dw;
    layer.run(1, 10'000, 10'000);
    std::size_t wrong = 0;
    walk<Chain>(layer, old_dw.input(), [&](const Chain& chain, auto value) {
      using Out = decltype(value);
      wrong += std::bit_cast<std::uint32_t>(to_float(from_float<Out>(chain.sum))) !=
               std::bit_cast<std::uint32_t>(to_float(value));
    });
    EXPECT_EQ(wrong, 0u) << sizes.rows << " " << sizes.out << " " << sizes.in;
  }
}

TYPED_TEST(Matmul, NoCutOfRowsOrColumnsAndNoThreadCountChangesABit) {
  for (const Sizes& sizes : all_sizes) {
    Layer<TypeParam> whole(sizes);
    whole.run(1, 10'000, 10'000);
    const auto expected = whole.bits();
    for (const auto& [threads, row_cut, column_cut] : {std::tuple{2, 10'000u, 10'000u},
                                                       {3, 10'000u, 10'000u},
                                                       {1, 37u, 50u},
                                                       {2, 64u, 96u},
                                                       {3, 250u, 77u}}) {
      Layer<TypeParam> pieces(sizes);
      pieces.run(threads, row_cut, column_cut);
      EXPECT_TRUE(pieces.bits() == expected)
          << sizes.rows << " " << sizes.out << " " << sizes.in << " threads " << threads << " cuts "
          << row_cut << " " << column_cut;
    }
  }
}

TYPED_TEST(Matmul, WeightGradientsOfTwoMicrobatchesContinueOneChain) {
  constexpr std::size_t rows = 449, first = 128, out = 50, in = 70;
  ThreadTeam team(2);
  Values<TypeParam> x(rows, in, 1), dy(rows, out, 2);
  Values<float> once(out, in, 3), twice(out, in, 3);
  Memory<std::byte> workspace(backward_weight_workspace<TypeParam>(rows, out, in));
  linear_backward_weight(team, dy.input(), x.input(), once.view(), workspace.span());
  linear_backward_weight(team, dy.input().row_range(0, first), x.input().row_range(0, first), twice.view(),
                         workspace.span());
  linear_backward_weight(team, dy.input().row_range(first, rows - first),
                         x.input().row_range(first, rows - first), twice.view(), workspace.span());
  EXPECT_TRUE(once.bits() == twice.bits());
}

TYPED_TEST(Matmul, NumbersThatAreNoneTouchNoOtherRowAndNoLaterProduct) {
  constexpr std::size_t rows = 45, out = 50, in = 449, bad = 7;
  const auto none = from_float<TypeParam>(std::numeric_limits<float>::quiet_NaN());
  ThreadTeam team(1);
  Values<TypeParam> x(rows, in, 1), w(out, in, 2), clean(rows, out), dirty(rows, out);
  const Weight<TypeParam> weight(team, w.input());
  linear_forward(team, x.input(), weight.packed, clean.view());
  x.view().at(bad, 3) = none;
  linear_forward(team, x.input(), weight.packed, dirty.view());
  for (std::size_t column = 0; column < out; ++column) {
    EXPECT_TRUE(std::isnan(to_float(dirty.view().at(bad, column))));
    dirty.view().at(bad, column) = clean.view().at(bad, column);
  }
  EXPECT_TRUE(dirty.bits() == clean.bits());

  Values<TypeParam> large(96, 600, 3), wide(out, 600, 4), ignored(96, out);
  for (std::size_t row = 0; row < 96; ++row) std::fill_n(&large.view().at(row, 0), 600, none);
  const Weight<TypeParam> other(team, wide.input());
  linear_forward(team, large.input(), other.packed, ignored.view());
  x.view().at(bad, 3) = TypeParam{};
  linear_forward(team, x.input(), weight.packed, dirty.view());
  for (std::size_t column = 0; column < out; ++column)
    EXPECT_FALSE(std::isnan(to_float(dirty.view().at(bad, column))));
  for (std::size_t column = 0; column < out; ++column)
    dirty.view().at(bad, column) = clean.view().at(bad, column);
  EXPECT_TRUE(dirty.bits() == clean.bits());
}

TYPED_TEST(Matmul, AllocatesNothingOnceThingsAreSetUp) {
  constexpr std::size_t rows = 100, out = 150, in = 600;
  ThreadTeam team(3);
  Values<TypeParam> x(rows, in, 1), w(out, in, 2), y(rows, out, 3);
  Values<float> dw(out, in);
  Weight<TypeParam> weight(team, w.input());
  Memory<std::byte> workspace(backward_weight_workspace<TypeParam>(rows, out, in));
  const InputGradientTerm<TypeParam> term{y.input(), &weight.packed};
  const auto step = [&] {
    linear_forward(team, x.input(), weight.packed, y.view());
    linear_backward_weight(team, y.input(), x.input(), dw.view(), workspace.span());
    linear_backward_input(team, std::span<const InputGradientTerm<TypeParam>>(&term, 1), x.view());
    weight.packed.pack(team, w.input());
  };
  step();
  const std::uint64_t before = test::allocations();
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(test::allocations(), before);
}

TYPED_TEST(Matmul, RefusesShapesAndMemoryThatDoNotFit) {
  ThreadTeam team(1);
  Values<TypeParam> x(4, 6, 1), w(5, 6, 2), y(4, 5);
  Values<float> dw(5, 6);
  Weight<TypeParam> weight(team, w.input());
  EXPECT_THROW(linear_forward(team, x.input().column_range(0, 5), weight.packed, y.view()), Error);
  EXPECT_THROW(linear_forward(team, x.input(), weight.packed, y.view().row_range(0, 3)), Error);
  const InputGradientTerm<TypeParam> term{x.input(), &weight.packed};
  EXPECT_THROW(linear_backward_input(team, std::span<const InputGradientTerm<TypeParam>>(&term, 1), x.view()),
               Error);
  EXPECT_THROW(linear_backward_input(team, std::span<const InputGradientTerm<TypeParam>>(), x.view()), Error);
  EXPECT_THROW(weight.packed.pack(team, w.input().row_range(0, 4)), Error);
  Memory<std::byte> workspace(backward_weight_workspace<TypeParam>(4, 5, 6));
  const auto short_of_one = workspace.span().first(workspace.span().size() - 1);
  EXPECT_THROW(linear_backward_weight(team, y.input(), x.input(), dw.view(), short_of_one), Error);
  Memory<std::byte> large(PackedWeight<TypeParam>::bytes(5, 6) + 64);
  EXPECT_THROW(PackedWeight<TypeParam>(5, 6, large.span().subspan(4)), Error);
}

TEST(MatmulBFloat16, LogitsKeptInFloatAreTheSumsBeforeTheLastRounding) {
  ThreadTeam team(2);
  Values<BFloat16> x(50, 449, 1), w(70, 449, 2), rounded(50, 70);
  Values<float> y(50, 70);
  const Weight<BFloat16> weight(team, w.input());
  linear_forward(team, x.input(), weight.packed, y.view());
  linear_forward(team, x.input(), weight.packed, rounded.view());
  for (std::size_t row = 0; row < 50; ++row) {
    for (std::size_t column = 0; column < 70; ++column) {
      EXPECT_EQ(to_bfloat16(y.view().at(row, column)), rounded.view().at(row, column));
    }
  }
}

TEST(CpuLevel, IsOneThatThisMachineHas) {
  EXPECT_LE(cpu_level(), best_cpu_level());
  EXPECT_EQ(name(CpuLevel::baseline), "baseline");
  EXPECT_EQ(name(CpuLevel::amx), "amx");
}

TEST(CpuLevel, Fp32PanelsOfAllFusedLevelsHaveTheSameBits) {
  if (best_cpu_level() < CpuLevel::avx512) GTEST_SKIP() << "needs AVX-512";
  for (std::size_t rows = 1; rows <= 25; ++rows) {
    Values<float> a(rows, 77, 1), b(77, 32, 2), wide(rows, 32, 3), narrow = wide;
    Memory<float> left(77 * 16), right(77 * 16), both(77 * 32);
    for (std::size_t k = 0; k < 77; ++k) {
      for (std::size_t column = 0; column < 16; ++column) {
        left.data()[k * 16 + column] = both.data()[k * 32 + column] = b.view().at(k, column);
        right.data()[k * 16 + column] = both.data()[k * 32 + 16 + column] = b.view().at(k, 16 + column);
      }
    }
    const std::size_t a_stride = a.view().row_stride, c_stride = wide.view().row_stride;
    panel_avx512(rows, 77, a.view().data, a_stride, both.data(), both.data(), wide.view().data, c_stride,
                 true);
    panel_avx2(rows, 77, a.view().data, a_stride, left.data(), left.data(), narrow.view().data, c_stride,
               true);
    panel_avx2(rows, 77, a.view().data, a_stride, right.data(), right.data(), narrow.view().data + 16,
               c_stride, true);
    EXPECT_TRUE(wide.bits() == narrow.bits());
  }
}

}  // namespace
}  // namespace weft::cpu
