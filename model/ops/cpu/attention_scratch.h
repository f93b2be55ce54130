#pragma once
// The memory of one thread in attention, and the products in it, straight on the kernel of matmul_kernel.h.
#include <algorithm>
#include <cstddef>

#include "weft/model/ops/cpu/attention.h"
#include "weft/model/ops/cpu/matmul_kernel.h"
#include "weft/model/ops/cpu/matrix.h"
#include "weft/model/ops/cpu/pack.h"
#include "weft/tensor/carver.h"

namespace weft::cpu {

/// Float rows with a small gap between them: rows a power of two apart would push each other out of the
/// cache.
class Rows {
 public:
  Rows(Carver& carve, std::size_t count, std::size_t columns)
      : count_(count), stride_(round_up(columns, 16) + 16), data_(carve.take<float>(count * stride_)) {}

  template <class T>
  void fill(Matrix<const T> from) const {
    copy_rows(from, data_, stride_);
  }
  void clear() const { std::fill_n(data_, count_ * stride_, 0.0f); }
  [[nodiscard]] float* row(std::size_t i) const { return data_ + i * stride_; }
  [[nodiscard]] std::size_t stride() const { return stride_; }

 private:
  std::size_t count_;
  std::size_t stride_;
  float* data_;
};

/// What both directions need: one block of queries, `width` = columns of a panel wide.
struct BlockScratch {
  float* queries_transposed;  // [head_dim, width], a packed panel
  float* scores;              // [sequence, width], a packed panel
  float* result;              // [head_dim, width]
  float* rows;                // [width, head_dim]
  float* largest;             // [width], likewise:
  float* inverse_sums;

  BlockScratch(Carver& carve, const AttentionShape& shape) {
    const std::size_t width = kernel<float>().columns;
    queries_transposed = carve.take<float>(shape.head_dim * width);
    scores = carve.take<float>(shape.sequence * width);
    result = carve.take<float>(shape.head_dim * width);
    rows = carve.take<float>(shape.head_dim * width);
    largest = carve.take<float>(width);
    inverse_sums = carve.take<float>(width);
  }
};

struct ForwardScratch : BlockScratch {
  Rows keys;               // [sequence, head_dim]
  Rows values_transposed;  // [head_dim, sequence]

  ForwardScratch(Carver& carve, const AttentionShape& shape)
      : BlockScratch(carve, shape),
        keys(carve, shape.sequence, shape.head_dim),
        values_transposed(carve, shape.head_dim, shape.sequence) {}
};

struct BackwardScratch : BlockScratch {
  Rows keys;             // [sequence, head_dim]
  Rows values;           // [sequence, head_dim]
  Rows keys_transposed;  // [head_dim, sequence]
  Rows key_gradient;     // [sequence, head_dim rounded up to panels]
  Rows value_gradient;
  float* gradients_transposed;  // [head_dim, width], a packed panel
  float* score_gradients;       // [sequence, width], a packed panel
  float* panels;                // [width, head_dim], packed

  BackwardScratch(Carver& carve, const AttentionShape& shape)
      : BlockScratch(carve, shape),
        keys(carve, shape.sequence, shape.head_dim),
        values(carve, shape.sequence, shape.head_dim),
        keys_transposed(carve, shape.head_dim, shape.sequence),
        key_gradient(carve, shape.sequence, round_up(shape.head_dim, kernel<float>().columns)),
        value_gradient(carve, shape.sequence, round_up(shape.head_dim, kernel<float>().columns)) {
    const std::size_t width = kernel<float>().columns;
    gradients_transposed = carve.take<float>(shape.head_dim * width);
    score_gradients = carve.take<float>(shape.sequence * width);
    panels = carve.take<float>(packed_elements<float>(width, shape.head_dim));
  }
};

template <class Scratch>
[[nodiscard]] std::size_t scratch_bytes(const AttentionShape& shape) {
  Carver count;
  const Scratch scratch(count, shape);
  return count.used();
}

/// c[rows, width] = a[rows, depth] panel[depth, width].
inline void multiply_panel(std::size_t rows, std::size_t depth, const Rows& a, const float* panel, float* c) {
  const Kernel<float>& product = kernel<float>();
  for (std::size_t k = 0; k < depth; k += product.chunk) {
    const float* part = panel + k * product.columns;
    product.panel(rows, std::min(product.chunk, depth - k), a.row(0) + k, a.stride(), part, part, c,
                  product.columns, k > 0);
  }
}

/// c[rows, columns] += a[rows, depth] b[depth, columns], where `a` has rows as long as a panel is wide.
/// `memory` takes the packed b.
template <class T>
void multiply_add_panels(std::size_t rows, const float* a, Matrix<const T> b, float* memory, const Rows& c) {
  const Kernel<float>& product = kernel<float>();
  for (std::size_t panel = 0; panel < divide_up(b.columns, product.columns); ++panel) {
    pack_panel(b, panel, memory);
    const float* packed = memory + panel * panel_elements<float>(b.rows);
    product.panel(rows, b.rows, a, product.columns, packed, packed, c.row(0) + panel * product.columns,
                  c.stride(), true);
  }
}

}  // namespace weft::cpu
