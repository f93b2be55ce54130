#pragma once
// Copies of operands in the order in which the panels of matmul_kernel.h read them.
#include <cstddef>

#include "weft/model/ops/cpu/matmul_kernel.h"
#include "weft/model/ops/cpu/matrix.h"
#include "weft/tensor/bfloat16.h"

namespace weft::cpu {

[[nodiscard]] constexpr std::size_t divide_up(std::size_t value, std::size_t by) {
  return (value + by - 1) / by;
}
[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t to) {
  return divide_up(value, to) * to;
}

/// Copies `from` to rows that lie `stride` elements apart at `to`, columns adjacent; bf16 to float widens.
/// Fast when the columns of `from` are adjacent or its rows are (a transposed matrix).
void copy_rows(Matrix<const float> from, float* to, std::size_t stride);
void copy_rows(Matrix<const BFloat16> from, float* to, std::size_t stride);
void copy_rows(Matrix<const BFloat16> from, BFloat16* to, std::size_t stride);

/// Elements of one panel of a right operand with this depth.
template <class Element>
[[nodiscard]] std::size_t panel_elements(std::size_t depth) {
  return round_up(depth, kernel<Element>().depth_step) * kernel<Element>().columns;
}

/// Elements of a packed right operand [depth, columns].
template <class Element>
[[nodiscard]] std::size_t packed_elements(std::size_t depth, std::size_t columns) {
  return panel_elements<Element>(depth) * divide_up(columns, kernel<Element>().columns);
}

/// Writes panel number `panel` of the right operand b[depth, columns] to its place in `packed`.
void pack_panel(Matrix<const float> b, std::size_t panel, float* packed);
void pack_panel(Matrix<const BFloat16> b, std::size_t panel, float* packed);
void pack_panel(Matrix<const BFloat16> b, std::size_t panel, BFloat16* packed);

}  // namespace weft::cpu
