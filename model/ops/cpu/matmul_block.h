#pragma once
// One block of a product, worked on by one thread: at most `most_block_rows` x `most_block_columns` elements
// of c.
#include <cstddef>

#include "weft/model/ops/cpu/matmul_kernel.h"
#include "weft/model/ops/cpu/matrix.h"
#include "weft/model/ops/cpu/thread_team.h"
#include "weft/tensor/bfloat16.h"

namespace weft::cpu {

inline constexpr std::size_t most_block_rows = 96;
inline constexpr std::size_t most_block_columns = 512;
inline constexpr std::size_t most_chunk = 512;  // of Kernel::chunk

/// Where the chain of each element begins.
enum class Start { zero, value_in_c };

/// A packed right operand b[depth, ...], seen from the panel `first_panel` on. `panel_size` is the number of
/// elements of a whole panel.
template <class Element>
struct Panels {
  const Element* data = nullptr;
  std::size_t panel_size = 0;
  std::size_t first_panel = 0;
};

/// A block of c that products are added to, one after the other; `finish` writes it. About 0.4 MB, for the
/// stack.
template <class Element, class Out>
class Block {
 public:
  /// `c` has at most most_block_rows x most_block_columns elements.
  Block(Matrix<Out> c, Start start);

  /// Continues every element's chain by a[rows, depth] b[depth, columns].
  /// The team's poll gets its turns.
  template <class T>
  void add(Matrix<const T> a, const Panels<Element>& b, ThreadTeam& team);

  void finish();

 private:
  void load_sums();

  const Kernel<Element>& kernel_;
  Matrix<Out> c_;
  bool direct_;   // sums are kept in c itself: it holds floats and needs no padding
  bool started_;  // the sums hold the beginning of the chains
  float* sums_;
  std::size_t sums_stride_;
  alignas(64) float sum_memory_[most_block_rows * most_block_columns];
  alignas(64) Element a_memory_[most_block_rows * (most_chunk + 64 / sizeof(Element))];
};

}  // namespace weft::cpu
