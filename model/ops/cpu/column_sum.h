#pragma once
// Sums over the rows of a matrix, in an order that does not depend on threads: rows in turn within blocks of
// block_rows, then the blocks in turn.
#include <cstddef>

#include "weft/model/ops/cpu/thread_team.h"

namespace weft::cpu {

/// Number of floats of workspace that column_sum needs.
[[nodiscard]] std::size_t column_sum_workspace(std::size_t rows, std::size_t n);

/// x[rows, n] -> sum[n] (set, not added to). A bias's gradient.
template <class T>
void column_sum(ThreadTeam& team, const T* x, float* sum, std::size_t rows, std::size_t n, float* workspace);

/// partial[blocks, n] -> sum[n]: the second half of such a sum.
void add_partial_sums(const float* partial, std::size_t blocks, float* sum, std::size_t n);

}  // namespace weft::cpu
