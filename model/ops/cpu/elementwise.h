#pragma once
// Sums and copies of matrices, element by element.
#include <cstddef>

#include "weft/model/ops/cpu/thread_team.h"

namespace weft::cpu {

/// a[rows, n] + b[rows, n] -> y[rows, n], which may be a or b.
template <class T>
void add(ThreadTeam& team, const T* a, const T* b, T* y, std::size_t rows, std::size_t n);

/// x[rows, n] += bias[n].
template <class T>
void add_bias(ThreadTeam& team, T* x, const T* bias, std::size_t rows, std::size_t n);

/// x[rows, n] -> y[rows, n]. Unlike memcpy it polls.
template <class T>
void copy(ThreadTeam& team, const T* x, T* y, std::size_t rows, std::size_t n);

}  // namespace weft::cpu
