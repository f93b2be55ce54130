#include "weft/model/ops/cpu/swiglu.h"

#include "weft/model/ops/cpu/row_blocks.h"
#include "weft/model/ops/cpu/row_kernels.h"

namespace weft::cpu {

template <class T>
void swiglu_forward(ThreadTeam& team, const T* gate_up, T* y, std::size_t rows, std::size_t n) {
  const auto& kernels = row_kernels<T>();
  for_rows(team, rows, [&](std::size_t row) {
    const T* gate = gate_up + row * 2 * n;
    kernels.swiglu(gate, gate + n, y + row * n, n);
  });
}

template <class T>
void swiglu_backward(ThreadTeam& team, const T* gate_up, const T* dy, T* gate_up_gradient, T* y,
                     std::size_t rows, std::size_t n) {
  const auto& kernels = row_kernels<T>();
  for_rows(team, rows, [&](std::size_t row) {
    const T* gate = gate_up + row * 2 * n;
    T* gradient = gate_up_gradient + row * 2 * n;
    kernels.swiglu_backward(gate, gate + n, dy + row * n, gradient, gradient + n, y + row * n, n);
  });
}

template void swiglu_forward(ThreadTeam&, const float*, float*, std::size_t, std::size_t);
template void swiglu_forward(ThreadTeam&, const BFloat16*, BFloat16*, std::size_t, std::size_t);
template void swiglu_backward(ThreadTeam&, const float*, const float*, float*, float*, std::size_t,
                              std::size_t);
template void swiglu_backward(ThreadTeam&, const BFloat16*, const BFloat16*, BFloat16*, BFloat16*,
                              std::size_t, std::size_t);

}  // namespace weft::cpu
