#pragma once
// The innermost loop of every fp32 product, written once over a vector type and compiled for each CPU level.
//
// Only for the sources in this folder. They are compiled with instruction sets that not every machine has, so
// nothing here may be shared with other sources: everything has internal linkage, and no function of the
// standard library is used (the linker could keep the copy that needs AVX-512).
#include <cstddef>

#include "weft/model/ops/cpu/kernels/prefetch.h"

namespace weft::cpu {
namespace {

/// One tile: `Rows` rows by `Vectors` vectors of c, whose elements each walk through `depth` multiply-adds in
/// order.
template <class Vector, int Rows, int Vectors>
void tile(std::size_t depth, const float* a, std::size_t a_stride, const float* b, float* c,
          std::size_t c_stride, bool accumulate) {
  typename Vector::Type sum[Rows][Vectors];
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) {
      sum[row][vector] =
          accumulate ? Vector::load(c + row * c_stride + vector * Vector::width) : Vector::zero();
    }
  }
  for (std::size_t k = 0; k < depth; ++k) {
    typename Vector::Type right[Vectors];
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) right[vector] = Vector::load(b + vector * Vector::width);
#pragma GCC unroll 16
    for (int row = 0; row < Rows; ++row) {
      const typename Vector::Type left = Vector::broadcast(a + row * a_stride);
#pragma GCC unroll 4
      for (int vector = 0; vector < Vectors; ++vector) {
        sum[row][vector] = Vector::multiply_add(left, right[vector], sum[row][vector]);
      }
    }
    a += 1;
    b += Vectors * Vector::width;
  }
#pragma GCC unroll 16
  for (int row = 0; row < Rows; ++row) {
#pragma GCC unroll 4
    for (int vector = 0; vector < Vectors; ++vector) {
      Vector::store(c + row * c_stride + vector * Vector::width, sum[row][vector]);
    }
  }
}

/// The last `rows` < Rows + 1 rows of a panel.
template <class Vector, int Rows, int Vectors>
void last_tile(std::size_t rows, std::size_t depth, const float* a, std::size_t a_stride, const float* b,
               float* c, std::size_t c_stride, bool accumulate) {
  if (rows == Rows) return tile<Vector, Rows, Vectors>(depth, a, a_stride, b, c, c_stride, accumulate);
  if constexpr (Rows > 1) {
    last_tile<Vector, Rows - 1, Vectors>(rows, depth, a, a_stride, b, c, c_stride, accumulate);
  }
}

/// PanelFunction of matmul_kernel.h: all rows of a against one packed panel of b.
template <class Vector, int Rows, int Vectors>
void panel(std::size_t rows, std::size_t depth, const float* a, std::size_t a_stride, const float* b,
           const float* next_b, float* c, std::size_t c_stride, bool accumulate) {
  const std::size_t tiles = rows / Rows;
  for (std::size_t i = 0; i < tiles; ++i) {
    prefetch_part(next_b, depth * Vectors * Vector::width * sizeof(float), i, tiles);
    tile<Vector, Rows, Vectors>(depth, a, a_stride, b, c, c_stride, accumulate);
    a += Rows * a_stride;
    c += Rows * c_stride;
  }
  const std::size_t left = rows - tiles * Rows;
  if (left > 0) last_tile<Vector, Rows - 1, Vectors>(left, depth, a, a_stride, b, c, c_stride, accumulate);
}

}  // namespace
}  // namespace weft::cpu
