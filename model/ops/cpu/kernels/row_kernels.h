#pragma once
// The inner loops of the ops, each over one row, compiled for several instruction-set levels.
//
// Inputs and outputs are of type T, float or BFloat16; all arithmetic is in float. A sum over a row has
// sixteen partial sums (element i goes to number i mod 16) that are added by a fixed tree.
#include <cstddef>
#include <cstdint>

#include "weft/model/ops/update_factors.h"
#include "weft/tensor/bfloat16.h"

namespace weft::cpu {

/// A block of attention scores, scores[keys, width]: one row a key, one column a query, the first one being
/// query number `first_query`. A query sees the keys up to its own number.
struct ScoreBlock {
  std::size_t keys = 0;
  std::size_t width = 0;
  std::size_t first_query = 0;
  float scale = 1;
};

template <class T>
struct RowKernels {
  /// y[n] = x[n] / rms(x) * gain[n]; returns 1 / rms(x) = 1 / sqrt(mean(x^2) + epsilon).
  float (*rms_norm)(const T* x, const T* gain, T* y, std::size_t n, float epsilon);
  /// sum[n] = a[n] + b[n], then as rms_norm of the (rounded) sum.
  float (*add_rms_norm)(const T* a, const T* b, const T* gain, T* sum, T* y, std::size_t n, float epsilon);
  /// From dy[n]: dx[n] (plus `residual`[n] unless null), y[n] once more, and gain_gradient[n] += dy x / rms.
  /// dx may be dy or residual.
  void (*rms_norm_backward)(const T* x, float inverse_rms, const T* gain, const T* dy, const T* residual,
                            T* dx, T* y, float* gain_gradient, std::size_t n);

  /// y[n] = silu(gate[n]) * up[n].
  void (*swiglu)(const T* gate, const T* up, T* y, std::size_t n);
  /// From dy[n]: the gradients of gate and up, and y once more.
  void (*swiglu_backward)(const T* gate, const T* up, const T* dy, T* dgate, T* dup, T* y, std::size_t n);

  /// Rotates the pairs (x[i], x[i + half]) by the angle whose cosine and sine are given. In place.
  void (*rotate)(T* x, const float* cosine, const float* sine, std::size_t half);
  /// Rotates the pairs of x the other way, into y.
  void (*rotate_back)(const float* x, const float* cosine, const float* sine, T* y, std::size_t half);

  /// gradient[n] = (softmax(logits) - one_hot(target)) * scale; returns -log softmax(logits)[target].
  /// Overwrites logits; `gradient` may be the same memory.
  double (*cross_entropy)(float* logits, std::size_t n, std::uint32_t target, float scale, T* gradient);

  /// y[n] = a[n] + b[n].
  void (*add)(const T* a, const T* b, T* y, std::size_t n);
  /// sum[n] += x[n].
  void (*accumulate)(const T* x, float* sum, std::size_t n);
  /// y[n] = x[n] * factor.
  void (*scale)(const float* x, float factor, T* y, std::size_t n);
  /// AdamW (Loshchilov and Hutter 2019) in PyTorch's order of operations. `master` is null when the value is
  /// its own master. Clears the gradient.
  void (*adamw)(T* value, float* master, float* gradient, float* first, float* second, std::size_t n,
                const AdamWFactors& factors);
  /// value -= learning_rate * (gradient + weight_decay * value). Clears the gradient.
  void (*sgd)(T* value, float* master, float* gradient, std::size_t n, const SgdFactors& factors);
};

/// What attention does between its products; float at every storage type. The sums over keys are one chain
/// per query.
struct SoftmaxKernels {
  /// scores[keys, width] become exp(scale * (score - largest)), 0 where the query does not see the key; also
  /// largest_score[width] and inverse_sum[width] = 1 / their sum over the keys.
  void (*softmax)(const ScoreBlock& block, float* scores, float* largest_score, float* inverse_sum);
  /// From raw scores[keys, width] and the gradients dp[keys, width] of the probabilities: scores become the
  /// probabilities, dp the gradients of the raw scores.
  void (*softmax_backward)(const ScoreBlock& block, float* scores, float* dp, const float* largest_score,
                           const float* inverse_sum);
  /// y[n] = x[n] * factors[n]; y may be x.
  void (*multiply)(const float* x, const float* factors, float* y, std::size_t n);
  /// y[n] = e^x[n], for tests of the exponential that all of these use.
  void (*exponential)(const float* x, float* y, std::size_t n);
};

struct RowLevel {
  RowKernels<float> float32;
  RowKernels<BFloat16> bfloat16;
  SoftmaxKernels softmax;
};

extern const RowLevel row_level_baseline;
extern const RowLevel row_level_avx2;
extern const RowLevel row_level_avx512;

}  // namespace weft::cpu
