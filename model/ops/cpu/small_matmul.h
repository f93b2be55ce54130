#pragma once
// Products of small strided matrices on the calling thread: attention's, one head at a time.
// Exact like the products of matmul.h: one chain of multiply-adds per element over the summed dimension,
// ascending. T is float or BFloat16; sums and results are float.
#include <cstddef>
#include <span>

#include "weft/model/ops/cpu/matrix.h"
#include "weft/tensor/bfloat16.h"

namespace weft::cpu {

/// The right operand b[k, n] of a product, packed for repeated use (one head's keys against several blocks of
/// queries). The memory belongs to the caller.
class PackedOperand {
 public:
  /// Number of floats that a [k, n] operand takes.
  [[nodiscard]] static std::size_t floats(std::size_t k, std::size_t n);

  /// Packs b[k, n] (pass `m.transposed()` for a transposed one) into `memory`, which begins on a 64-byte
  /// border and holds at least floats(k, n). Throws Error otherwise.
  template <class T>
  PackedOperand(Matrix<const T> b, std::span<float> memory);

  [[nodiscard]] std::size_t k() const noexcept { return k_; }
  [[nodiscard]] std::size_t n() const noexcept { return n_; }
  [[nodiscard]] const float* panels() const noexcept { return panels_; }

 private:
  const float* panels_;
  std::size_t k_;
  std::size_t n_;
};

/// c[m, n] = a[m, k] b[first_k .. first_k + k, 0 .. n]: b may have more rows and columns than the product
/// uses, so causal attention passes a part of the keys. Any operand may be transposed except c, whose columns
/// are adjacent. Throws Error when the shapes do not fit.
template <class T>
void multiply(Matrix<float> c, Matrix<const T> a, const PackedOperand& b, std::size_t first_k = 0);

/// c += the same; the chain starts at the value in c.
template <class T>
void multiply_add(Matrix<float> c, Matrix<const T> a, const PackedOperand& b, std::size_t first_k = 0);

}  // namespace weft::cpu
