// The ops of the Llama against plain formulas in double: values, gradients (central differences), and that no
// thread count, place or length changes a bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <ostream>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/random.h"
#include "weft/model/layers/rope_table.h"
#include "weft/model/llama/tokens.h"
#include "weft/model/ops/cpu/attention.h"
#include "weft/model/ops/cpu/column_sum.h"
#include "weft/model/ops/cpu/cross_entropy.h"
#include "weft/model/ops/cpu/elementwise.h"
#include "weft/model/ops/cpu/embedding.h"
#include "weft/model/ops/cpu/rms_norm.h"
#include "weft/model/ops/cpu/rope.h"
#include "weft/model/ops/cpu/swiglu.h"

namespace weft {

// Names the cases below.
static void PrintTo(const AttentionShape& shape, std::ostream* out) {
  *out << shape.batch << "x" << shape.sequence << "x" << shape.heads << "x" << shape.kv_heads << "x"
       << shape.head_dim;
}

}  // namespace weft

namespace weft::cpu {
namespace {

using Floats = std::vector<float>;
using Doubles = std::vector<double>;

Floats random_floats(std::size_t n, std::uint64_t stream) {
  Floats values(n);
  CounterRandom(7, RandomPurpose::test, stream).fill_normal(0, 1.0, values);
  return values;
}

double weighted(const Doubles& y, const Floats& weights) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * static_cast<double>(weights[i]);
  return sum;
}

void expect_close(const Floats& got, const Doubles& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  double largest = 1e-30;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(static_cast<double>(got[i]), expected[i], tolerance * largest) << "element " << i;
}

/// Compares got[i] with the slope of `loss` in x[i], for every `stride`-th i.
void expect_gradient(const Floats& x, const std::function<double(const Doubles&)>& loss, const Floats& got,
                     std::size_t stride = 1) {
  ASSERT_EQ(x.size(), got.size());
  Doubles at(x.begin(), x.end());
  double largest = 1e-30;
  for (const float g : got) largest = std::max(largest, std::abs(static_cast<double>(g)));
  for (std::size_t i = 0; i < x.size(); i += stride) {
    constexpr double step = 1e-5;
    const double middle = at[i];
    at[i] = middle + step;
    const double above = loss(at);
    at[i] = middle - step;
    const double below = loss(at);
    at[i] = middle;
    ASSERT_NEAR(static_cast<double>(got[i]), (above - below) / (2 * step), 5e-6 * largest) << "element " << i;
  }
}

Doubles to_double(const Floats& x) { return Doubles(x.begin(), x.end()); }

Doubles norm_reference(const Doubles& x, const Doubles& gain, std::size_t rows, double epsilon) {
  const std::size_t n = gain.size();
  Doubles y(x.size());
  for (std::size_t r = 0; r < rows; ++r) {
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += x[r * n + i] * x[r * n + i];
    const double rms = std::sqrt(squares / static_cast<double>(n) + epsilon);
    for (std::size_t i = 0; i < n; ++i) y[r * n + i] = x[r * n + i] / rms * gain[i];
  }
  return y;
}

TEST(RmsNorm, has_the_values_and_gradients_of_its_formula) {
  for (const std::size_t n : {std::size_t{1}, std::size_t{16}, std::size_t{45}}) {
    constexpr std::size_t rows = 35;  // more than one block
    const float epsilon = 1e-3f;
    const Floats x = random_floats(rows * n, 1);
    const Floats gain = random_floats(n, 2);
    const Floats weights = random_floats(rows * n, 3);
    const Floats residual = random_floats(rows * n, 4);
    ThreadTeam team(2);
    Floats y(rows * n), again(rows * n), dx(rows * n), dgain(n), inverse(rows);
    Floats workspace(rms_norm_backward_workspace(rows, n));
    rms_norm_forward(team, x.data(), gain.data(), y.data(), inverse.data(), rows, n, epsilon);
    expect_close(y, norm_reference(to_double(x), to_double(gain), rows, epsilon), 1e-6);
    rms_norm_backward<float>(team, x.data(), inverse.data(), gain.data(), weights.data(), nullptr, dx.data(),
                             again.data(), dgain.data(), rows, n, workspace.data());
    EXPECT_EQ(y, again);
    expect_gradient(
        x,
        [&](const Doubles& at) {
          return weighted(norm_reference(at, to_double(gain), rows, epsilon), weights);
        },
        dx);
    expect_gradient(
        gain,
        [&](const Doubles& at) { return weighted(norm_reference(to_double(x), at, rows, epsilon), weights); },
        dgain);
    Floats with_residual(rows * n);
    rms_norm_backward<float>(team, x.data(), inverse.data(), gain.data(), weights.data(), residual.data(),
                             with_residual.data(), again.data(), dgain.data(), rows, n, workspace.data());
    for (std::size_t i = 0; i < dx.size(); ++i) ASSERT_EQ(with_residual[i], residual[i] + dx[i]);
  }
}

TEST(RmsNorm, of_a_sum_is_the_norm_of_the_stored_sum) {
  constexpr std::size_t rows = 5;
  constexpr std::size_t n = 37;
  const Floats a = random_floats(rows * n, 1), b = random_floats(rows * n, 2), gain = random_floats(n, 3);
  ThreadTeam team(1);
  Floats sum(rows * n), y(rows * n), expected_sum(rows * n), expected(rows * n), inverse(rows), other(rows);
  add_rms_norm_forward(team, a.data(), b.data(), gain.data(), sum.data(), y.data(), inverse.data(), rows, n,
                       0);
  add(team, a.data(), b.data(), expected_sum.data(), rows, n);
  rms_norm_forward(team, sum.data(), gain.data(), expected.data(), other.data(), rows, n, 0);
  EXPECT_EQ(sum, expected_sum);
  EXPECT_EQ(y, expected);
  EXPECT_EQ(inverse, other);
}

Doubles swiglu_reference(const Doubles& gate_up, std::size_t rows, std::size_t n) {
  Doubles y(rows * n);
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t i = 0; i < n; ++i) {
      const double gate = gate_up[r * 2 * n + i];
      y[r * n + i] = gate / (1 + std::exp(-gate)) * gate_up[r * 2 * n + n + i];
    }
  return y;
}

TEST(SwiGlu, has_the_values_and_gradients_of_its_formula) {
  constexpr std::size_t rows = 34;
  constexpr std::size_t n = 21;
  Floats x = random_floats(rows * 2 * n, 1);
  for (float& v : x) v *= 3;
  const Floats weights = random_floats(rows * n, 2);
  ThreadTeam team(2);
  Floats y(rows * n), again = weights, dx(rows * 2 * n);
  swiglu_forward(team, x.data(), y.data(), rows, n);
  expect_close(y, swiglu_reference(to_double(x), rows, n), 1e-6);
  swiglu_backward(team, x.data(), again.data(), dx.data(), again.data(), rows, n);  // in place
  EXPECT_EQ(y, again);
  expect_gradient(
      x, [&](const Doubles& at) { return weighted(swiglu_reference(at, rows, n), weights); }, dx);
}

TEST(SwiGlu, saturates_without_a_nan) {
  const Floats x{-1000, -90, 90, 1000, 1, 1, 1, 1};  // one row: gates, then ups
  ThreadTeam team(1);
  Floats y(4), dx(8), dy(4, 1.0f);
  swiglu_forward(team, x.data(), y.data(), 1, 4);
  EXPECT_NEAR(y[0], 0, 1e-30);
  EXPECT_NEAR(y[1], 0, 1e-30);
  EXPECT_EQ(y[2], 90);
  EXPECT_EQ(y[3], 1000);
  swiglu_backward(team, x.data(), dy.data(), dx.data(), dy.data(), 1, 4);
  EXPECT_NEAR(dx[0], 0, 1e-30);
  EXPECT_EQ(dx[3], 1);
}

/// Softmax of causal scores times values, after rotating queries and keys; all in double.
Doubles attention_reference(const Doubles& qkv, const AttentionShape& shape, const Floats& cosine,
                            const Floats& sine) {
  const std::size_t d = shape.head_dim;
  Doubles rotated = qkv;
  for (std::size_t row = 0; row < shape.rows(); ++row)
    for (std::size_t head = 0; head < shape.heads + shape.kv_heads; ++head)
      for (std::size_t i = 0; i < d / 2; ++i) {
        double* pair = rotated.data() + row * shape.qkv_columns() + head * d + i;
        const double c = cosine[row % shape.sequence * (d / 2) + i];
        const double s = sine[row % shape.sequence * (d / 2) + i];
        const double a = pair[0], b = pair[d / 2];
        pair[0] = a * c - b * s;
        pair[d / 2] = b * c + a * s;
      }
  Doubles out(shape.rows() * shape.out_columns());
  Doubles p(shape.sequence);
  for (std::size_t b = 0; b < shape.batch; ++b)
    for (std::size_t head = 0; head < shape.heads; ++head) {
      const std::size_t kv = head * shape.kv_heads / shape.heads;
      const auto row = [&](std::size_t s, std::size_t column) {
        return rotated.data() + (b * shape.sequence + s) * shape.qkv_columns() + column * d;
      };
      for (std::size_t i = 0; i < shape.sequence; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j <= i; ++j) {
          double score = 0;
          for (std::size_t k = 0; k < d; ++k) score += row(i, head)[k] * row(j, shape.heads + kv)[k];
          sum += p[j] = std::exp(score / std::sqrt(static_cast<double>(d)));
        }
        for (std::size_t j = 0; j <= i; ++j)
          for (std::size_t k = 0; k < d; ++k)
            out[(b * shape.sequence + i) * shape.out_columns() + head * d + k] +=
                p[j] / sum * row(j, shape.heads + shape.kv_heads + kv)[k];
      }
    }
  return out;
}

struct AttentionResult {
  Floats out, gradient;
  friend bool operator==(const AttentionResult&, const AttentionResult&) = default;
};

AttentionResult run_attention(ThreadTeam& team, const AttentionShape& shape, Floats qkv,
                              const Floats& weights, const Floats& cosine, const Floats& sine) {
  AttentionResult result{Floats(weights.size()), Floats(qkv.size())};
  Floats statistics(shape.statistics());
  const std::size_t bytes = attention_workspace(shape, team.threads());
  std::vector<std::byte> memory(bytes + 64);
  void* begin = memory.data();
  std::size_t room = memory.size();
  std::align(64, bytes, begin, room);
  const std::span workspace(static_cast<std::byte*>(begin), bytes);
  rope_forward(team, qkv.data(), cosine.data(), sine.data(), shape.rows(), shape.sequence,
               shape.heads + shape.kv_heads, shape.head_dim, shape.qkv_columns());
  attention_forward(team, shape, qkv.data(), result.out.data(), statistics.data(), workspace);
  attention_backward(team, shape, qkv.data(), statistics.data(), weights.data(), cosine.data(), sine.data(),
                     result.gradient.data(), workspace);
  return result;
}

class Attention : public testing::TestWithParam<AttentionShape> {};

TEST_P(Attention, with_rotary_embedding_has_the_values_and_gradients_of_its_formula) {
  const AttentionShape shape = GetParam();
  const Floats qkv = random_floats(shape.rows() * shape.qkv_columns(), 1);
  const Floats weights = random_floats(shape.rows() * shape.out_columns(), 2);
  Floats cosine(shape.sequence * shape.head_dim / 2), sine(cosine.size());
  Floats frequencies(shape.head_dim / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) frequencies[i] = 1.0f / static_cast<float>(1 + 3 * i);
  fill_rope_table(frequencies, shape.sequence, cosine.data(), sine.data());
  ThreadTeam one(1);
  const AttentionResult result = run_attention(one, shape, qkv, weights, cosine, sine);
  expect_close(result.out, attention_reference(to_double(qkv), shape, cosine, sine), 2e-6);
  expect_gradient(
      qkv, [&](const Doubles& at) { return weighted(attention_reference(at, shape, cosine, sine), weights); },
      result.gradient, 1 + qkv.size() / 300);
  for (int threads = 2; threads <= 3; ++threads) {
    ThreadTeam team(threads);
    EXPECT_EQ(run_attention(team, shape, qkv, weights, cosine, sine), result) << threads << " threads";
  }
}

INSTANTIATE_TEST_SUITE_P(
    shapes, Attention,
    testing::Values(AttentionShape{.batch = 2, .sequence = 37, .heads = 4, .kv_heads = 2, .head_dim = 6},
                    AttentionShape{.batch = 1, .sequence = 1, .heads = 3, .kv_heads = 1, .head_dim = 2},
                    AttentionShape{.batch = 3, .sequence = 32, .heads = 2, .kv_heads = 2, .head_dim = 16},
                    AttentionShape{.batch = 1, .sequence = 70, .heads = 3, .kv_heads = 3, .head_dim = 20}));

TEST(CrossEntropy, has_the_loss_and_gradient_of_its_formula) {
  constexpr std::size_t rows = 19;
  constexpr std::size_t n = 257;
  Floats logits = random_floats(rows * n, 1);
  for (float& v : logits) v *= 10;
  std::vector<std::int32_t> targets(rows);
  for (std::size_t r = 0; r < rows; ++r) targets[r] = static_cast<std::int32_t>((r * 131 + 256) % n);
  const auto loss = [&](const Doubles& at) {
    double sum = 0;
    for (std::size_t r = 0; r < rows; ++r) {
      double total = 0;
      for (std::size_t i = 0; i < n; ++i) total += std::exp(at[r * n + i]);
      sum += std::log(total) - at[r * n + static_cast<std::size_t>(targets[r])];
    }
    return sum;
  };
  ThreadTeam team(2);
  Floats gradient = logits;
  std::vector<double> losses(rows);
  const double got = cross_entropy<float>(team, gradient.data(), targets.data(), 0.25f, gradient.data(),
                                          losses.data(), rows, n);
  EXPECT_NEAR(got, loss(to_double(logits)), 1e-6 * got);
  expect_gradient(
      logits, [&](const Doubles& at) { return loss(at) / 4; }, gradient, 7);
}

TEST(CrossEntropy, is_finite_at_logits_far_apart_and_not_finite_at_a_nan) {
  ThreadTeam team(1);
  Floats logits{3e38f, -3e38f, 0}, gradient(3);
  const std::int32_t target = 1;
  double row = 0;
  EXPECT_EQ(cross_entropy<float>(team, logits.data(), &target, 1, gradient.data(), &row, 1, 3),
            2 * static_cast<double>(3e38f));
  EXPECT_EQ(gradient, (Floats{1, -1, 0}));
  logits = {1, NAN, 0};
  EXPECT_TRUE(std::isnan(cross_entropy<float>(team, logits.data(), &target, 1, gradient.data(), &row, 1, 3)));
}

TEST(Embedding, gathers_rows_and_adds_gradients_of_repeated_tokens) {
  constexpr std::size_t n = 70;
  const Floats table = random_floats(5 * n, 1);
  const std::vector<std::int32_t> tokens{3, 0, 3, 4};
  ThreadTeam team(2);
  Floats y(4 * n), gradient(5 * n, 1.0f);
  embedding_forward(team, tokens.data(), table.data(), y.data(), 4, n);
  for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(y[2 * n + i], table[3 * n + i]);
  embedding_backward(team, tokens.data(), y.data(), gradient.data(), 4, n);
  for (std::size_t i = 0; i < n; ++i) {
    ASSERT_EQ(gradient[3 * n + i], 1.0f + table[3 * n + i] + table[3 * n + i]);
    ASSERT_EQ(gradient[1 * n + i], 1.0f);
  }
}

TEST(CheckTokens, names_a_token_outside_the_vocabulary) {
  for (const std::int32_t bad : {-1, 5}) {
    const std::vector<std::int32_t> tokens{0, 4, bad};
    try {
      check_tokens(tokens, 5, "token");
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "token " + std::to_string(bad) +
                    " at position 2 of the micro-batch is outside the vocabulary of 5");
    }
  }
}

TEST(ColumnSum, adds_rows_and_bias_is_added_to_rows) {
  constexpr std::size_t rows = 71;
  constexpr std::size_t n = 19;
  const Floats x = random_floats(rows * n, 1);
  Doubles expected(n);
  for (std::size_t i = 0; i < x.size(); ++i) expected[i % n] += static_cast<double>(x[i]);
  ThreadTeam team(3);
  Floats sum(n), workspace(column_sum_workspace(rows, n)), y = x;
  column_sum(team, x.data(), sum.data(), rows, n, workspace.data());
  expect_close(sum, expected, 1e-6);
  add_bias(team, y.data(), sum.data(), rows, n);
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_EQ(y[i], x[i] + sum[i % n]);
}

}  // namespace
}  // namespace weft::cpu
