#pragma once
// The gated activation of Llama's feed-forward part (Shazeer 2020): y = silu(gate) * up.
#include <cstddef>

#include "weft/model/ops/cpu/thread_team.h"

namespace weft::cpu {

/// gate_up[rows, 2 n] (a row holds gate[n], then up[n]) -> y[rows, n].
template <class T>
void swiglu_forward(ThreadTeam& team, const T* gate_up, T* y, std::size_t rows, std::size_t n);

/// dy[rows, n] -> gate_up_gradient[rows, 2 n], and y[rows, n] (the forward's result once more). y may be dy.
template <class T>
void swiglu_backward(ThreadTeam& team, const T* gate_up, const T* dy, T* gate_up_gradient, T* y,
                     std::size_t rows, std::size_t n);

}  // namespace weft::cpu
