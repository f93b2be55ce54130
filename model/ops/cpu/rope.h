#pragma once
// Rotary position embedding (Su et al. 2021) as Hugging Face computes it: pair i of a head is (x[i],
// x[i + head_dim / 2]).
#include <cstddef>

#include "weft/model/ops/cpu/thread_team.h"

namespace weft::cpu {

/// Rotates the first `heads` heads of each row of x[batch * sequence, row_stride] in place, row
/// (b, s) by the angles of position s. cosine and sine are [>= sequence, head_dim / 2].
template <class T>
void rope_forward(ThreadTeam& team, T* x, const float* cosine, const float* sine, std::size_t rows,
                  std::size_t sequence, std::size_t heads, std::size_t head_dim, std::size_t row_stride);

}  // namespace weft::cpu
