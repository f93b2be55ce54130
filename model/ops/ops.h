#pragma once
// The list of all ops.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "weft/model/ops/attention_shape.h"
#include "weft/model/ops/op_sizes.h"
#include "weft/model/ops/poll.h"
#include "weft/model/ops/update_factors.h"
#include "weft/tensor/queue.h"

namespace weft {

/// A weight [out, in] and its packed form, OpSizes::packed_bytes(out, in) bytes that Ops::pack fills anew
/// after every change of `value`.
template <class T>
struct LinearWeight {
  const T* value = nullptr;
  std::byte* packed = nullptr;
  std::size_t out = 0;
  std::size_t in = 0;
};

/// Everything that layers and optimizers compute with, on one device: work of a queue, in the order in which
/// it is given; on the CPU done when a call returns. Storage is T, float or BFloat16, the arithmetic float.
/// Matrices are [rows, columns] without gaps, in the device's memory. No op allocates. No bit of a result
/// depends on threads or on the number of rows.
template <class T>
class Ops {
 public:
  virtual ~Ops() = default;
  [[nodiscard]] virtual const OpSizes<T>& sizes() const noexcept = 0;
  /// What long ops run now and then on the calling thread, every 100 us or so; it must not throw.
  virtual void set_poll(Poll poll) const noexcept = 0;

  /// tokens[rows], table[vocabulary, n] -> y[rows, n]. The tokens have been checked.
  virtual void embedding_forward(const std::int32_t* tokens, const T* table, T* y, std::size_t rows,
                                 std::size_t n) const = 0;
  /// table_gradient[vocabulary, n] += dy[rows, n] at each row's token, rows in ascending order.
  virtual void embedding_backward(const std::int32_t* tokens, const T* dy, float* table_gradient,
                                  std::size_t rows, std::size_t n) const = 0;

  /// x[rows, n], gain[n] -> y[rows, n] = x / sqrt(mean(x^2) + epsilon) * gain, inverse_rms[rows].
  virtual void rms_norm_forward(const T* x, const T* gain, T* y, float* inverse_rms, std::size_t rows,
                                std::size_t n, float epsilon) const = 0;
  /// a[rows, n] + b[rows, n] -> sum[rows, n], then as rms_norm_forward of the (stored) sum.
  virtual void add_rms_norm_forward(const T* a, const T* b, const T* gain, T* sum, T* y, float* inverse_rms,
                                    std::size_t rows, std::size_t n, float epsilon) const = 0;
  /// dy, residual (or null) [rows, n] -> dx[rows, n] = residual + gradient, y[rows, n] once more,
  /// gain_gradient[n] (set). dx may be dy or residual. workspace[row_sum_workspace].
  virtual void rms_norm_backward(const T* x, const float* inverse_rms, const T* gain, const T* dy,
                                 const T* residual, T* dx, T* y, float* gain_gradient, std::size_t rows,
                                 std::size_t n, float* workspace) const = 0;

  /// w.value -> w.packed.
  virtual void pack(const LinearWeight<T>& w) const = 0;
  /// x[rows, in] -> y[rows, out] = x w^T.
  virtual void linear_forward(const T* x, const LinearWeight<T>& w, T* y, std::size_t rows) const = 0;
  /// The same with y in float.
  virtual void linear_forward_float(const T* x, const LinearWeight<T>& w, float* y,
                                    std::size_t rows) const = 0;
  /// dy[rows, out] -> dx[rows, in] = dy w.
  virtual void linear_backward_input(const T* dy, const LinearWeight<T>& w, T* dx,
                                     std::size_t rows) const = 0;
  /// dw[out, in] += dy[rows, out]^T x[rows, in]. workspace: backward_weight_workspace bytes, on a 64-byte
  /// border.
  virtual void linear_backward_weight(const T* dy, const T* x, float* dw, std::size_t rows, std::size_t out,
                                      std::size_t in, std::span<std::byte> workspace) const = 0;
  /// x[rows, n] += bias[n].
  virtual void add_bias(T* x, const T* bias, std::size_t rows, std::size_t n) const = 0;
  /// x[rows, n] -> sum[n] (set). workspace[row_sum_workspace].
  virtual void column_sum(const T* x, float* sum, std::size_t rows, std::size_t n,
                          float* workspace) const = 0;

  /// Rotates the first `heads` heads [head_dim] of each row of x[rows, row_stride] in place, row r by the
  /// angles of position r % sequence. cosine, sine: [>= sequence, head_dim / 2].
  virtual void rope_forward(T* x, const float* cosine, const float* sine, std::size_t rows,
                            std::size_t sequence, std::size_t heads, std::size_t head_dim,
                            std::size_t row_stride) const = 0;
  /// qkv[rows, qkv_columns], rotated -> out[rows, out_columns], statistics[batch, heads, 2, sequence].
  /// Causal; scores are scaled by 1 / sqrt(head_dim). workspace: attention_workspace bytes.
  virtual void attention_forward(const AttentionShape& shape, const T* qkv, T* out, float* statistics,
                                 std::span<std::byte> workspace) const = 0;
  /// out_gradient[rows, out_columns] -> qkv_gradient[rows, qkv_columns], of queries and keys before their
  /// rotation by the angles of cosine and sine.
  virtual void attention_backward(const AttentionShape& shape, const T* qkv, const float* statistics,
                                  const T* out_gradient, const float* cosine, const float* sine,
                                  T* qkv_gradient, std::span<std::byte> workspace) const = 0;

  /// gate_up[rows, 2 n] (gate[n], then up[n]) -> y[rows, n] = silu(gate) * up.
  virtual void swiglu_forward(const T* gate_up, T* y, std::size_t rows, std::size_t n) const = 0;
  /// dy[rows, n] -> gate_up_gradient[rows, 2 n], y[rows, n] once more. y may be dy.
  virtual void swiglu_backward(const T* gate_up, const T* dy, T* gate_up_gradient, T* y, std::size_t rows,
                               std::size_t n) const = 0;

  /// a[rows, n] + b[rows, n] -> y[rows, n], which may be a or b.
  virtual void add(const T* a, const T* b, T* y, std::size_t rows, std::size_t n) const = 0;
  /// x[rows, n] -> y[rows, n].
  virtual void copy(const T* x, T* y, std::size_t rows, std::size_t n) const = 0;
  /// sum[n] += x[n].
  virtual void accumulate(const float* x, float* sum, std::size_t n) const = 0;

  /// logits[rows, vocabulary] (overwritten), targets[rows] (checked) -> gradient[rows, vocabulary] =
  /// (softmax - one hot) * scale, losses[rows], and their mean, rows in turn, at `mean` on the host, there
  /// once a later event of the queue is past. With T = float `gradient` may be the logits.
  virtual void cross_entropy(float* logits, const std::int32_t* targets, float scale, T* gradient,
                             double* losses, double* mean, std::size_t rows,
                             std::size_t vocabulary) const = 0;

  /// value[n] (by its float master[n] unless that is null) and the moments first[n], second[n] are updated,
  /// gradient[n] is used up and set to zero.
  virtual void adamw(T* value, float* master, float* gradient, float* first, float* second, std::size_t n,
                     const AdamWFactors& factors) const = 0;
  /// The same without moments.
  virtual void sgd(T* value, float* master, float* gradient, std::size_t n,
                   const SgdFactors& factors) const = 0;
};

/// The ops of the queue's device, for T = float and BFloat16. All ops made for one queue with the same
/// settings share its compute threads. The queue outlives them. Throws DeviceError when the settings name
/// another kind of device than the queue's, Error when threads cannot be started.
template <class T>
[[nodiscard]] std::unique_ptr<Ops<T>> make_ops(Queue& queue, const ComputeSettings& settings);

}  // namespace weft
