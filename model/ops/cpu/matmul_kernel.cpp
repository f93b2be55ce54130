#include "weft/model/ops/cpu/matmul_kernel.h"

#include "weft/model/ops/cpu/cpu_level.h"
#include "weft/model/ops/cpu/kernels/panels.h"

namespace weft::cpu {
namespace {

constexpr Kernel<float> baseline{panel_baseline, 8, 1, 1, 512};
constexpr Kernel<float> avx2{panel_avx2, 16, 1, 1, 512};
constexpr Kernel<float> avx512{panel_avx512, 32, 1, 1, 256};
constexpr Kernel<BFloat16> amx{panel_amx, 32, 32, 32, 512};

const Kernel<float>& float_kernel(CpuLevel level) {
  switch (level) {
    case CpuLevel::baseline:
      return baseline;
    case CpuLevel::avx2:
      return avx2;
    case CpuLevel::avx512:
    case CpuLevel::amx:
      break;
  }
  return avx512;
}

}  // namespace

template <>
const Kernel<float>& kernel<float>() {
  static const Kernel<float>& chosen = float_kernel(cpu_level());
  return chosen;
}

template <>
const Kernel<BFloat16>& kernel<BFloat16>() {
  return amx;
}

bool has_bfloat16_kernel() { return cpu_level() == CpuLevel::amx; }

}  // namespace weft::cpu
