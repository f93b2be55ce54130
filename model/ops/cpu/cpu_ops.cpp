#include "weft/model/ops/cpu/cpu_ops.h"

#include <algorithm>

#include "weft/model/ops/cpu/attention.h"
#include "weft/model/ops/cpu/column_sum.h"
#include "weft/model/ops/cpu/cross_entropy.h"
#include "weft/model/ops/cpu/elementwise.h"
#include "weft/model/ops/cpu/embedding.h"
#include "weft/model/ops/cpu/matmul.h"
#include "weft/model/ops/cpu/rms_norm.h"
#include "weft/model/ops/cpu/rope.h"
#include "weft/model/ops/cpu/row_kernels.h"
#include "weft/model/ops/cpu/swiglu.h"

namespace weft::cpu {
namespace {

template <class T>
PackedWeight<T> packed(const LinearWeight<T>& w) {
  return PackedWeight<T>(w.out, w.in, {w.packed, PackedWeight<T>::bytes(w.out, w.in)});
}

/// function(first element, count) for chunks of n elements, on the team's threads.
template <class Function>
void for_chunks(ThreadTeam& team, std::size_t n, Function&& function) {
  constexpr std::size_t chunk = 16384;
  team.parallel_for((n + chunk - 1) / chunk, [&](std::size_t block) {
    const std::size_t at = block * chunk;
    function(at, std::min(chunk, n - at));
  });
}

}  // namespace

std::shared_ptr<ThreadTeam> team_of(Queue& queue, int threads) {
  auto team = std::static_pointer_cast<ThreadTeam>(queue.shared());
  if (team == nullptr || team->threads() != threads) {
    team = std::make_shared<ThreadTeam>(threads);
    queue.shared() = team;
  }
  return team;
}

template <class T>
std::size_t CpuOpSizes<T>::packed_bytes(std::size_t out, std::size_t in) const {
  return PackedWeight<T>::bytes(out, in);
}
template <class T>
std::size_t CpuOpSizes<T>::backward_weight_workspace(std::size_t rows, std::size_t out,
                                                     std::size_t in) const {
  return cpu::backward_weight_workspace<T>(rows, out, in);
}
template <class T>
std::size_t CpuOpSizes<T>::attention_workspace(const AttentionShape& shape) const {
  return cpu::attention_workspace(shape, threads_);
}
template <class T>
std::size_t CpuOpSizes<T>::row_sum_workspace(std::size_t rows, std::size_t n) const {
  return std::max(rms_norm_backward_workspace(rows, n), column_sum_workspace(rows, n));
}

template <class T>
void CpuOps<T>::embedding_forward(const std::int32_t* tokens, const T* table, T* y, std::size_t rows,
                                  std::size_t n) const {
  cpu::embedding_forward(*team_, tokens, table, y, rows, n);
}
template <class T>
void CpuOps<T>::embedding_backward(const std::int32_t* tokens, const T* dy, float* table_gradient,
                                   std::size_t rows, std::size_t n) const {
  cpu::embedding_backward(*team_, tokens, dy, table_gradient, rows, n);
}

template <class T>
void CpuOps<T>::rms_norm_forward(const T* x, const T* gain, T* y, float* inverse_rms, std::size_t rows,
                                 std::size_t n, float epsilon) const {
  cpu::rms_norm_forward(*team_, x, gain, y, inverse_rms, rows, n, epsilon);
}
template <class T>
void CpuOps<T>::add_rms_norm_forward(const T* a, const T* b, const T* gain, T* sum, T* y, float* inverse_rms,
                                     std::size_t rows, std::size_t n, float epsilon) const {
  cpu::add_rms_norm_forward(*team_, a, b, gain, sum, y, inverse_rms, rows, n, epsilon);
}
template <class T>
void CpuOps<T>::rms_norm_backward(const T* x, const float* inverse_rms, const T* gain, const T* dy,
                                  const T* residual, T* dx, T* y, float* gain_gradient, std::size_t rows,
                                  std::size_t n, float* workspace) const {
  cpu::rms_norm_backward(*team_, x, inverse_rms, gain, dy, residual, dx, y, gain_gradient, rows, n,
                         workspace);
}

template <class T>
void CpuOps<T>::pack(const LinearWeight<T>& w) const {
  packed(w).pack(*team_, Matrix<const T>(w.value, w.out, w.in));
}
template <class T>
void CpuOps<T>::linear_forward(const T* x, const LinearWeight<T>& w, T* y, std::size_t rows) const {
  cpu::linear_forward(*team_, Matrix<const T>(x, rows, w.in), packed(w), Matrix<T>(y, rows, w.out));
}
template <class T>
void CpuOps<T>::linear_forward_float(const T* x, const LinearWeight<T>& w, float* y, std::size_t rows) const {
  cpu::linear_forward(*team_, Matrix<const T>(x, rows, w.in), packed(w), Matrix<float>(y, rows, w.out));
}
template <class T>
void CpuOps<T>::linear_backward_input(const T* dy, const LinearWeight<T>& w, T* dx, std::size_t rows) const {
  const PackedWeight<T> weight = packed(w);
  const InputGradientTerm<T> term{Matrix<const T>(dy, rows, w.out), &weight};
  cpu::linear_backward_input(*team_, std::span(&term, 1), Matrix<T>(dx, rows, w.in));
}
template <class T>
void CpuOps<T>::linear_backward_weight(const T* dy, const T* x, float* dw, std::size_t rows, std::size_t out,
                                       std::size_t in, std::span<std::byte> workspace) const {
  cpu::linear_backward_weight(*team_, Matrix<const T>(dy, rows, out), Matrix<const T>(x, rows, in),
                              Matrix<float>(dw, out, in), workspace);
}
template <class T>
void CpuOps<T>::add_bias(T* x, const T* bias, std::size_t rows, std::size_t n) const {
  cpu::add_bias(*team_, x, bias, rows, n);
}
template <class T>
void CpuOps<T>::column_sum(const T* x, float* sum, std::size_t rows, std::size_t n, float* workspace) const {
  cpu::column_sum(*team_, x, sum, rows, n, workspace);
}

template <class T>
void CpuOps<T>::rope_forward(T* x, const float* cosine, const float* sine, std::size_t rows,
                             std::size_t sequence, std::size_t heads, std::size_t head_dim,
                             std::size_t row_stride) const {
  cpu::rope_forward(*team_, x, cosine, sine, rows, sequence, heads, head_dim, row_stride);
}
template <class T>
void CpuOps<T>::attention_forward(const AttentionShape& shape, const T* qkv, T* out, float* statistics,
                                  std::span<std::byte> workspace) const {
  cpu::attention_forward(*team_, shape, qkv, out, statistics, workspace);
}
template <class T>
void CpuOps<T>::attention_backward(const AttentionShape& shape, const T* qkv, const float* statistics,
                                   const T* out_gradient, const float* cosine, const float* sine,
                                   T* qkv_gradient, std::span<std::byte> workspace) const {
  cpu::attention_backward(*team_, shape, qkv, statistics, out_gradient, cosine, sine, qkv_gradient,
                          workspace);
}

template <class T>
void CpuOps<T>::swiglu_forward(const T* gate_up, T* y, std::size_t rows, std::size_t n) const {
  cpu::swiglu_forward(*team_, gate_up, y, rows, n);
}
template <class T>
void CpuOps<T>::swiglu_backward(const T* gate_up, const T* dy, T* gate_up_gradient, T* y, std::size_t rows,
                                std::size_t n) const {
  cpu::swiglu_backward(*team_, gate_up, dy, gate_up_gradient, y, rows, n);
}

template <class T>
void CpuOps<T>::add(const T* a, const T* b, T* y, std::size_t rows, std::size_t n) const {
  cpu::add(*team_, a, b, y, rows, n);
}
template <class T>
void CpuOps<T>::copy(const T* x, T* y, std::size_t rows, std::size_t n) const {
  cpu::copy(*team_, x, y, rows, n);
}
template <class T>
void CpuOps<T>::accumulate(const float* x, float* sum, std::size_t n) const {
  row_kernels<float>().accumulate(x, sum, n);
}

template <class T>
void CpuOps<T>::cross_entropy(float* logits, const std::int32_t* targets, float scale, T* gradient,
                              double* losses, double* mean, std::size_t rows, std::size_t vocabulary) const {
  *mean = cpu::cross_entropy(*team_, logits, targets, scale, gradient, losses, rows, vocabulary) /
          static_cast<double>(rows);
}

template <class T>
void CpuOps<T>::adamw(T* value, float* master, float* gradient, float* first, float* second, std::size_t n,
                      const AdamWFactors& factors) const {
  for_chunks(*team_, n, [&](std::size_t at, std::size_t count) {
    row_kernels<T>().adamw(value + at, master == nullptr ? nullptr : master + at, gradient + at, first + at,
                           second + at, count, factors);
  });
}
template <class T>
void CpuOps<T>::sgd(T* value, float* master, float* gradient, std::size_t n,
                    const SgdFactors& factors) const {
  for_chunks(*team_, n, [&](std::size_t at, std::size_t count) {
    row_kernels<T>().sgd(value + at, master == nullptr ? nullptr : master + at, gradient + at, count,
                         factors);
  });
}

template class CpuOpSizes<float>;
template class CpuOpSizes<BFloat16>;
template class CpuOps<float>;
template class CpuOps<BFloat16>;

}  // namespace weft::cpu
