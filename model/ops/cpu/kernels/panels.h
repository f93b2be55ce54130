#pragma once
// The innermost functions of the products, one per CPU level; call them through matmul_kernel.h.
// c[rows, panel columns] = a[rows, depth] b[depth, panel columns], or += when `accumulate` is set; strides in
// elements.
#include <cstddef>

#include "weft/tensor/bfloat16.h"

namespace weft::cpu {

/// fp32: b is packed [depth][panel columns].
void panel_baseline(std::size_t rows, std::size_t depth, const float* a, std::size_t a_stride, const float* b,
                    const float* next_b, float* c, std::size_t c_stride, bool accumulate);
void panel_avx2(std::size_t rows, std::size_t depth, const float* a, std::size_t a_stride, const float* b,
                const float* next_b, float* c, std::size_t c_stride, bool accumulate);
void panel_avx512(std::size_t rows, std::size_t depth, const float* a, std::size_t a_stride, const float* b,
                  const float* next_b, float* c, std::size_t c_stride, bool accumulate);

/// bf16 on AMX tiles: rows and depth are multiples of 32, the panel has 32 columns, and b is packed
/// [depth / 2][32][2].
void panel_amx(std::size_t rows, std::size_t depth, const BFloat16* a, std::size_t a_stride,
               const BFloat16* b, const BFloat16* next_b, float* c, std::size_t c_stride, bool accumulate);

}  // namespace weft::cpu
