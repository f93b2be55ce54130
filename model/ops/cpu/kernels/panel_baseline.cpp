// fp32 panels for any x86-64: SSE2, product and sum rounded apart (there is no fused multiply-add).
#include <emmintrin.h>

#include "weft/model/ops/cpu/kernels/panels.h"
#include "weft/model/ops/cpu/kernels/tile_kernel.h"

namespace weft::cpu {
namespace {

struct Sse2 {
  using Type = __m128;
  static constexpr int width = 4;
  static Type zero() { return _mm_setzero_ps(); }
  static Type load(const float* from) { return _mm_loadu_ps(from); }
  static void store(float* to, Type value) { _mm_storeu_ps(to, value); }
  static Type broadcast(const float* from) { return _mm_set1_ps(*from); }
  static Type multiply_add(Type a, Type b, Type sum) { return _mm_add_ps(_mm_mul_ps(a, b), sum); }
};

}  // namespace

void panel_baseline(std::size_t rows, std::size_t depth, const float* a, std::size_t a_stride, const float* b,
                    const float* next_b, float* c, std::size_t c_stride, bool accumulate) {
  panel<Sse2, 4, 2>(rows, depth, a, a_stride, b, next_b, c, c_stride, accumulate);
}

}  // namespace weft::cpu
