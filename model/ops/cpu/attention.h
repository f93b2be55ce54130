#pragma once
// Causal grouped-query attention (Ainslie et al. 2023). The backward recomputes the probabilities from two
// numbers per query (Dao et al. 2022), so nothing of size sequence^2 is kept.
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
  /// Floats that the forward keeps: a largest score and an inverse sum per query and head.
  [[nodiscard]] std::size_t statistics() const noexcept { return 2 * rows() * heads; }
};

/// Bytes of workspace of either function with this many threads.
[[nodiscard]] std::size_t attention_workspace(const AttentionShape& shape, int threads);

/// qkv[batch * sequence, qkv_columns], rotated -> out[batch * sequence, heads * head_dim] and
/// statistics[batch, heads, 2, sequence]. Scores are scaled by 1 / sqrt(head_dim). Throws Error when the
/// workspace is too small.
template <class T>
void attention_forward(ThreadTeam& team, const AttentionShape& shape, const T* qkv, T* out, float* statistics,
                       std::span<std::byte> workspace);

/// out_gradient, like out -> qkv_gradient[batch * sequence, qkv_columns]: for queries and keys the gradient
/// before their rotation by the angles of cosine and sine [>= sequence, head_dim / 2].
template <class T>
void attention_backward(ThreadTeam& team, const AttentionShape& shape, const T* qkv, const float* statistics,
                        const T* out_gradient, const float* cosine, const float* sine, T* qkv_gradient,
                        std::span<std::byte> workspace);

}  // namespace weft::cpu
