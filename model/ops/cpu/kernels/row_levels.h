#pragma once
// The row kernels of every level, for row_kernels.cpp.
#include "weft/model/ops/cpu/row_kernels.h"

namespace weft::cpu {

struct RowLevel {
  RowKernels<float> float32;
  RowKernels<BFloat16> bfloat16;
  SoftmaxKernels softmax;
};

extern const RowLevel row_level_baseline;
extern const RowLevel row_level_avx2;
extern const RowLevel row_level_avx512;

}  // namespace weft::cpu
