#include "weft/model/ops/cpu/row_kernels.h"

#include "weft/model/ops/cpu/cpu_level.h"

namespace weft::cpu {
namespace {

const RowLevel& level_in_use() {
  static const RowLevel& chosen = cpu_level() == CpuLevel::baseline ? row_level_baseline
                                  : cpu_level() == CpuLevel::avx2   ? row_level_avx2
                                                                    : row_level_avx512;
  return chosen;
}

}  // namespace

template <>
const RowKernels<float>& row_kernels<float>() {
  return level_in_use().float32;
}
template <>
const RowKernels<BFloat16>& row_kernels<BFloat16>() {
  return level_in_use().bfloat16;
}
const SoftmaxKernels& softmax_kernels() { return level_in_use().softmax; }

}  // namespace weft::cpu
