#include "weft/model/ops/cpu/small_matmul.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>

#include "weft/base/error.h"
#include "weft/model/ops/cpu/matmul_block.h"
#include "weft/model/ops/cpu/pack.h"

namespace weft::cpu {
namespace {

template <class T>
void run(Matrix<float> c, Matrix<const T> a, const PackedOperand& b, std::size_t first_k, Start start) {
  if (a.rows != c.rows || c.columns > b.n() || first_k > b.k() || a.columns > b.k() - first_k ||
      c.column_stride != 1) {
    throw Error(fmt::format("multiply: c[{}, {}], a[{}, {}], b[{}, {}] from row {} do not fit", c.rows,
                            c.columns, a.rows, a.columns, b.k(), b.n(), first_k));
  }
  const std::size_t panel = kernel<float>().columns;
  for (std::size_t column = 0; column < c.columns; column += most_block_columns) {
    const std::size_t columns = std::min(most_block_columns, c.columns - column);
    const Panels<float> panels{b.panels(), panel_elements<float>(b.k()), first_k, column / panel};
    for (std::size_t row = 0; row < c.rows; row += most_block_rows) {
      const std::size_t rows = std::min(most_block_rows, c.rows - row);
      Block<float, float> block(c.row_range(row, rows).column_range(column, columns), start);
      block.add(a.row_range(row, rows), panels, nullptr);
      block.finish();
    }
  }
}

}  // namespace

std::size_t PackedOperand::floats(std::size_t k, std::size_t n) { return packed_elements<float>(k, n); }

template <class T>
PackedOperand::PackedOperand(Matrix<const T> b, std::span<float> memory)
    : panels_(memory.data()), k_(b.rows), n_(b.columns) {
  if (memory.size() < floats(k_, n_) || reinterpret_cast<std::uintptr_t>(memory.data()) % 64 != 0) {
    throw Error(fmt::format("PackedOperand: {} floats on a 64-byte border are needed, {} were given at {}",
                            floats(k_, n_), memory.size(), fmt::ptr(memory.data())));
  }
  const std::size_t panels = divide_up(n_, kernel<float>().columns);
  for (std::size_t panel = 0; panel < panels; ++panel) pack_panel(b, panel, memory.data());
}

template <class T>
void multiply(Matrix<float> c, Matrix<const T> a, const PackedOperand& b, std::size_t first_k) {
  run(c, a, b, first_k, Start::zero);
}

template <class T>
void multiply_add(Matrix<float> c, Matrix<const T> a, const PackedOperand& b, std::size_t first_k) {
  run(c, a, b, first_k, Start::value_in_c);
}

template PackedOperand::PackedOperand(Matrix<const float>, std::span<float>);
template PackedOperand::PackedOperand(Matrix<const BFloat16>, std::span<float>);
template void multiply(Matrix<float>, Matrix<const float>, const PackedOperand&, std::size_t);
template void multiply(Matrix<float>, Matrix<const BFloat16>, const PackedOperand&, std::size_t);
template void multiply_add(Matrix<float>, Matrix<const float>, const PackedOperand&, std::size_t);
template void multiply_add(Matrix<float>, Matrix<const BFloat16>, const PackedOperand&, std::size_t);

}  // namespace weft::cpu
