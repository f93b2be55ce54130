#pragma once
// Token embedding: rows of a table.
#include <cstddef>
#include <cstdint>

#include "weft/model/ops/cpu/thread_team.h"

namespace weft::cpu {

/// tokens[rows], table[vocabulary, n] -> y[rows, n]. The tokens have been checked.
template <class T>
void embedding_forward(ThreadTeam& team, const std::int32_t* tokens, const T* table, T* y, std::size_t rows,
                       std::size_t n);

/// table_gradient[vocabulary, n] += dy[rows, n] at each row's token, rows in ascending order.
template <class T>
void embedding_backward(ThreadTeam& team, const std::int32_t* tokens, const T* dy, float* table_gradient,
                        std::size_t rows, std::size_t n);

}  // namespace weft::cpu
