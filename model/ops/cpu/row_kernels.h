#pragma once
// The inner loops of the ops, each over one row, compiled for several instruction-set levels. The functions
// that users call (rms_norm.h, swiglu.h, ...) cut matrices into rows and give them to threads.
//
// Inputs and outputs are of type T, float or BFloat16; all arithmetic is in float. A sum over a row has
// sixteen partial sums (element i goes to number i mod 16) that are added by a fixed tree.
#include <cstddef>
#include <cstdint>

#include "weft/tensor/bfloat16.h"

namespace weft::cpu {

/// What one AdamW update needs beside the tensors.
struct AdamWFactors {
  float gradient_scale = 1;  ///< clipping
  float keep = 1;            ///< 1 - learning rate * weight decay
  float beta1_rest = 0;      ///< 1 - beta1
  float beta2 = 0;
  float beta2_rest = 0;                ///< 1 - beta2
  float step_size = 0;                 ///< learning rate / (1 - beta1^t)
  float second_moment_correction = 1;  ///< sqrt(1 - beta2^t)
  float epsilon = 0;
};

/// What one SGD update needs beside the tensors.
struct SgdFactors {
  float gradient_scale = 1;  ///< clipping
  float learning_rate = 0;
  float weight_decay = 0;
};

/// The result of one row's softmax.
struct SoftmaxRow {
  float log_sum_exp = 0;
  float inverse_sum = 0;  ///< what the exponentials are to be multiplied with
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
  /// The scalar product of a[n] and b[n].
  float (*dot)(const T* a, const T* b, std::size_t n);

  /// AdamW (Loshchilov and Hutter 2019) in PyTorch's order of operations. `master` is null when the value is
  /// its own master. Clears the gradient.
  void (*adamw)(T* value, float* master, float* gradient, float* first, float* second, std::size_t n,
                const AdamWFactors& factors);
  /// value -= learning_rate * (gradient + weight_decay * value). Clears the gradient.
  void (*sgd)(T* value, float* master, float* gradient, std::size_t n, const SgdFactors& factors);
};

/// Loops over float rows that attention has between its products.
struct SoftmaxKernels {
  /// scores[i] = exp(scale * (scores[i] - largest)) for i < valid, 0 up to n. Not yet divided by their sum.
  SoftmaxRow (*softmax)(float* scores, std::size_t valid, std::size_t n, float scale);
  /// scores[i] becomes the probability p = exp(scale * scores[i] - log_sum_exp), dp[i] the score's gradient
  /// scale * p * (dp[i] - delta), for i < valid; both 0 up to n.
  void (*softmax_backward)(float* scores, float* dp, std::size_t valid, std::size_t n, float scale,
                           float log_sum_exp, float delta);
  /// y[n] = e^x[n], for tests of the exponential that all of these use.
  void (*exponential)(const float* x, float* y, std::size_t n);
};

/// The kernels of this process's CPU level.
template <class T>
[[nodiscard]] const RowKernels<T>& row_kernels();
[[nodiscard]] const SoftmaxKernels& softmax_kernels();

}  // namespace weft::cpu
