#include "weft/model/ops/cpu/matmul_block.h"

#include <algorithm>
#include <type_traits>

#include "weft/model/ops/cpu/pack.h"

namespace weft::cpu {
namespace {

constexpr std::size_t a_gap(std::size_t element_size) { return 64 / element_size; }

}  // namespace

template <class Element, class Out>
Block<Element, Out>::Block(Matrix<Out> c, Start start)
    : kernel_(kernel<Element>()), c_(c), started_(start == Start::value_in_c) {
  direct_ = std::is_same_v<Out, float> && c.column_stride == 1 && c.columns % kernel_.columns == 0 &&
            c.rows % kernel_.row_step == 0;
  if constexpr (std::is_same_v<Out, float>) {
    if (direct_) {
      sums_ = c.data;
      sums_stride_ = c.row_stride;
      return;
    }
  }
  sums_ = sum_memory_;
  sums_stride_ = round_up(c.columns, kernel_.columns);
  if (started_) load_sums();
}

template <class Element, class Out>
void Block<Element, Out>::load_sums() {
  const std::size_t rows = round_up(c_.rows, kernel_.row_step);
  if (rows != c_.rows || sums_stride_ != c_.columns) std::fill(sums_, sums_ + rows * sums_stride_, 0.0f);
  copy_rows(Matrix<const Out>(c_), sums_, sums_stride_);
}

template <class Element, class Out>
template <class T>
void Block<Element, Out>::add(Matrix<const T> a, const Panels<Element>& b, ThreadTeam& team) {
  const std::size_t rows = round_up(a.rows, kernel_.row_step);
  const std::size_t panels = divide_up(c_.columns, kernel_.columns);
  for (std::size_t k = 0; k < a.columns; k += kernel_.chunk) {
    const Matrix<const T> part = a.column_range(k, std::min(kernel_.chunk, a.columns - k));
    const std::size_t depth = round_up(part.columns, kernel_.depth_step);
    // A copy with a small gap between rows: rows a power of two apart would push each other out of the cache.
    const std::size_t stride = depth + a_gap(sizeof(Element));
    if (depth != part.columns || rows != a.rows) std::fill(a_memory_, a_memory_ + rows * stride, Element{});
    copy_rows(part, a_memory_, stride);
    const Element* right = b.data + b.first_panel * b.panel_size + k * kernel_.columns;
    for (std::size_t panel = 0; panel < panels; ++panel) {
      const Element* next = panel + 1 < panels ? right + b.panel_size : right;
      kernel_.panel(rows, depth, a_memory_, stride, right, next, sums_ + panel * kernel_.columns,
                    sums_stride_, started_);
      right = next;
      team.poll();
    }
    started_ = true;
  }
}

template <class Element, class Out>
void Block<Element, Out>::finish() {
  if (direct_) return;
  for (std::size_t row = 0; row < c_.rows; ++row) {
    for (std::size_t column = 0; column < c_.columns; ++column) {
      c_.at(row, column) = from_float<Out>(sums_[row * sums_stride_ + column]);
    }
  }
}

template class Block<float, float>;
template class Block<float, BFloat16>;
template class Block<BFloat16, float>;
template class Block<BFloat16, BFloat16>;
template void Block<float, float>::add(Matrix<const float>, const Panels<float>&, ThreadTeam&);
template void Block<float, float>::add(Matrix<const BFloat16>, const Panels<float>&, ThreadTeam&);
template void Block<float, BFloat16>::add(Matrix<const BFloat16>, const Panels<float>&, ThreadTeam&);
template void Block<BFloat16, float>::add(Matrix<const BFloat16>, const Panels<BFloat16>&, ThreadTeam&);
template void Block<BFloat16, BFloat16>::add(Matrix<const BFloat16>, const Panels<BFloat16>&, ThreadTeam&);

}  // namespace weft::cpu
