#pragma once
// The inner loops of the ops for this process's CPU level. The functions of rms_norm.h, swiglu.h and
// others cut matrices into rows and give them to threads.
#include "weft/model/ops/cpu/kernels/row_kernels.h"

namespace weft::cpu {

template <class T>
[[nodiscard]] const RowKernels<T>& row_kernels();
[[nodiscard]] const SoftmaxKernels& softmax_kernels();

}  // namespace weft::cpu
