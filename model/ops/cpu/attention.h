#pragma once
// Causal grouped-query attention (Ainslie et al. 2023). The backward recomputes the probabilities from the
// logarithm of each row's sum (Dao et al. 2022), so nothing of size sequence^2 is kept.
#include <cstddef>
#include <span>

#include "weft/model/ops/cpu/thread_team.h"

namespace weft::cpu {

/// Sizes of one attention. A row of `qkv` is the queries [heads, head_dim], then the keys and the values
/// [kv_heads, head_dim] each; queries of head h use the keys of head h * kv_heads / heads.
struct AttentionShape {
  std::size_t batch = 0;
  std::size_t sequence = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;

  [[nodiscard]] std::size_t rows() const noexcept { return batch * sequence; }
  [[nodiscard]] std::size_t out_columns() const noexcept { return heads * head_dim; }
  [[nodiscard]] std::size_t qkv_columns() const noexcept { return (heads + 2 * kv_heads) * head_dim; }
};

/// Bytes of workspace of either function with this many threads.
[[nodiscard]] std::size_t attention_workspace(const AttentionShape& shape, int threads);

/// qkv[batch * sequence, qkv_columns], rotated -> out[batch * sequence, heads * head_dim] and
/// log_sum_exp[batch, heads, sequence]. Scores are scaled by 1 / sqrt(head_dim). Throws Error when the
/// workspace is too small.
template <class T>
void attention_forward(ThreadTeam& team, const AttentionShape& shape, const T* qkv, T* out,
                       float* log_sum_exp, std::span<std::byte> workspace);

/// out_gradient, like out -> qkv_gradient[batch * sequence, qkv_columns]: for queries and keys the gradient
/// before their rotation by the angles of cosine and sine [>= sequence, head_dim / 2].
template <class T>
void attention_backward(ThreadTeam& team, const AttentionShape& shape, const T* qkv, const T* out,
                        const float* log_sum_exp, const T* out_gradient, const float* cosine,
                        const float* sine, T* qkv_gradient, std::span<std::byte> workspace);

}  // namespace weft::cpu
