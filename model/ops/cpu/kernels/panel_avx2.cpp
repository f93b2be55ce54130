// fp32 panels with AVX2 and FMA: 6 rows by 16 columns fill the 16 registers.
#include <immintrin.h>

#include "weft/model/ops/cpu/kernels/panels.h"
#include "weft/model/ops/cpu/kernels/tile_kernel.h"

namespace weft::cpu {
namespace {

struct Avx2 {
  using Type = __m256;
  static constexpr int width = 8;
  static Type zero() { return _mm256_setzero_ps(); }
  static Type load(const float* from) { return _mm256_loadu_ps(from); }
  static void store(float* to, Type value) { _mm256_storeu_ps(to, value); }
  static Type broadcast(const float* from) { return _mm256_broadcast_ss(from); }
  static Type multiply_add(Type a, Type b, Type sum) { return _mm256_fmadd_ps(a, b, sum); }
};

}  // namespace

void panel_avx2(std::size_t rows, std::size_t depth, const float* a, std::size_t a_stride, const float* b,
                const float* next_b, float* c, std::size_t c_stride, bool accumulate) {
  panel<Avx2, 6, 2>(rows, depth, a, a_stride, b, next_b, c, c_stride, accumulate);
}

}  // namespace weft::cpu
