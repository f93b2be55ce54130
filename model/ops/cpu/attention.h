#pragma once
// Causal grouped-query attention (Ainslie et al. 2023). The backward recomputes the probabilities from two
// numbers per query (Dao et al. 2022), so nothing of size sequence^2 is kept.
#include <cstddef>
#include <span>

#include "weft/model/ops/attention_shape.h"
#include "weft/model/ops/cpu/thread_team.h"

namespace weft::cpu {

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
