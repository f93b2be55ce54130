#pragma once
// The ops of the CPU: rows and blocks of the functions in this folder, on the threads of a team.
#include <memory>
#include <utility>

#include "weft/model/ops/cpu/thread_team.h"
#include "weft/model/ops/ops.h"
#include "weft/tensor/bfloat16.h"

namespace weft::cpu {

template <class T>
class CpuOpSizes final : public OpSizes<T> {
 public:
  explicit CpuOpSizes(int threads) noexcept : threads_(threads) {}
  [[nodiscard]] std::size_t packed_bytes(std::size_t out, std::size_t in) const override;
  [[nodiscard]] std::size_t backward_weight_workspace(std::size_t rows, std::size_t out,
                                                      std::size_t in) const override;
  [[nodiscard]] std::size_t attention_workspace(const AttentionShape& shape) const override;
  [[nodiscard]] std::size_t row_sum_workspace(std::size_t rows, std::size_t n) const override;

 private:
  int threads_;
};

/// The team that all ops on this queue share: made at the first call, anew when `threads` changes. Throws
/// Error when threads cannot be started.
[[nodiscard]] std::shared_ptr<ThreadTeam> team_of(Queue& queue, int threads);

template <class T>
class CpuOps final : public Ops<T> {
 public:
  explicit CpuOps(std::shared_ptr<ThreadTeam> team) noexcept
      : team_(std::move(team)), sizes_(team_->threads()) {}

  [[nodiscard]] const OpSizes<T>& sizes() const noexcept override { return sizes_; }
  void set_poll(Poll poll) const noexcept override { team_->set_poll(poll); }
  void embedding_forward(const std::int32_t* tokens, const T* table, T* y, std::size_t rows,
                         std::size_t n) const override;
  void embedding_backward(const std::int32_t* tokens, const T* dy, float* table_gradient, std::size_t rows,
                          std::size_t n) const override;
  void rms_norm_forward(const T* x, const T* gain, T* y, float* inverse_rms, std::size_t rows, std::size_t n,
                        float epsilon) const override;
  void add_rms_norm_forward(const T* a, const T* b, const T* gain, T* sum, T* y, float* inverse_rms,
                            std::size_t rows, std::size_t n, float epsilon) const override;
  void rms_norm_backward(const T* x, const float* inverse_rms, const T* gain, const T* dy, const T* residual,
                         T* dx, T* y, float* gain_gradient, std::size_t rows, std::size_t n,
                         float* workspace) const override;
  void pack(const LinearWeight<T>& w) const override;
  void linear_forward(const T* x, const LinearWeight<T>& w, T* y, std::size_t rows) const override;
  void linear_forward_float(const T* x, const LinearWeight<T>& w, float* y, std::size_t rows) const override;
  void linear_backward_input(const T* dy, const LinearWeight<T>& w, T* dx, std::size_t rows) const override;
  void linear_backward_weight(const T* dy, const T* x, float* dw, std::size_t rows, std::size_t out,
                              std::size_t in, std::span<std::byte> workspace) const override;
  void add_bias(T* x, const T* bias, std::size_t rows, std::size_t n) const override;
  void column_sum(const T* x, float* sum, std::size_t rows, std::size_t n, float* workspace) const override;
  void rope_forward(T* x, const float* cosine, const float* sine, std::size_t rows, std::size_t sequence,
                    std::size_t heads, std::size_t head_dim, std::size_t row_stride) const override;
  void attention_forward(const AttentionShape& shape, const T* qkv, T* out, float* statistics,
                         std::span<std::byte> workspace) const override;
  void attention_backward(const AttentionShape& shape, const T* qkv, const float* statistics,
                          const T* out_gradient, const float* cosine, const float* sine, T* qkv_gradient,
                          std::span<std::byte> workspace) const override;
  void swiglu_forward(const T* gate_up, T* y, std::size_t rows, std::size_t n) const override;
  void swiglu_backward(const T* gate_up, const T* dy, T* gate_up_gradient, T* y, std::size_t rows,
                       std::size_t n) const override;
  void add(const T* a, const T* b, T* y, std::size_t rows, std::size_t n) const override;
  void copy(const T* x, T* y, std::size_t rows, std::size_t n) const override;
  void accumulate(const float* x, float* sum, std::size_t n) const override;
  void cross_entropy(float* logits, const std::int32_t* targets, float scale, T* gradient, double* losses,
                     double* mean, std::size_t rows, std::size_t vocabulary) const override;
  void adamw(T* value, float* master, float* gradient, float* first, float* second, std::size_t n,
             const AdamWFactors& factors) const override;
  void sgd(T* value, float* master, float* gradient, std::size_t n, const SgdFactors& factors) const override;

 private:
  std::shared_ptr<ThreadTeam> team_;
  CpuOpSizes<T> sizes_;
};

extern template class CpuOpSizes<float>;
extern template class CpuOpSizes<BFloat16>;
extern template class CpuOps<float>;
extern template class CpuOps<BFloat16>;

}  // namespace weft::cpu
