#pragma once
// The innermost function of a product and the shapes it wants, for the CPU level in use.
#include <cstddef>

#include "weft/tensor/bfloat16.h"

namespace weft::cpu {

/// c[rows, columns of a panel] = a[rows, depth] b[depth, columns], or += when `accumulate`: strides in
/// elements, a and c with adjacent columns. Every element of c is one chain over the depth. `next_b` is where
/// the next call will read (b itself if there is none): it is fetched into the second-level cache meanwhile.
template <class Element>
using PanelFunction = void (*)(std::size_t rows, std::size_t depth, const Element* a, std::size_t a_stride,
                               const Element* b, const Element* next_b, float* c, std::size_t c_stride,
                               bool accumulate);

/// A packed right operand is cut into panels of `columns` columns, each [padded depth][columns] elements
/// (bf16: pairs of the depth lie side by side); columns and depth are padded with zeros.
template <class Element>
struct Kernel {
  PanelFunction<Element> panel;
  std::size_t columns;     // of a panel
  std::size_t row_step;    // rows given to `panel` are a multiple of it
  std::size_t depth_step;  // and so is the depth
  std::size_t
      chunk;  // depth that is worked on at a time, so that a panel's part stays in the first-level cache
};

/// float at every level; BFloat16 at level amx alone.
template <class Element>
[[nodiscard]] const Kernel<Element>& kernel();

/// Whether BFloat16 products run on bf16 units (level amx); elsewhere bf16 operands are widened to float.
[[nodiscard]] bool has_bfloat16_kernel();

}  // namespace weft::cpu
