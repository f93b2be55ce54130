// fp32 panels with AVX-512: 12 rows by 32 columns use 27 of the 32 registers.
#include <immintrin.h>

#include "weft/model/ops/cpu/kernels/panels.h"
#include "weft/model/ops/cpu/kernels/tile_kernel.h"

namespace weft::cpu {
namespace {

struct Avx512 {
  using Type = __m512;
  static constexpr int width = 16;
  static Type zero() { return _mm512_setzero_ps(); }
  static Type load(const float* from) { return _mm512_loadu_ps(from); }
  static void store(float* to, Type value) { _mm512_storeu_ps(to, value); }
  static Type broadcast(const float* from) { return _mm512_set1_ps(*from); }
  static Type multiply_add(Type a, Type b, Type sum) { return _mm512_fmadd_ps(a, b, sum); }
};

}  // namespace

void panel_avx512(std::size_t rows, std::size_t depth, const float* a, std::size_t a_stride, const float* b,
                  const float* next_b, float* c, std::size_t c_stride, bool accumulate) {
  panel<Avx512, 12, 2>(rows, depth, a, a_stride, b, next_b, c, c_stride, accumulate);
}

}  // namespace weft::cpu
