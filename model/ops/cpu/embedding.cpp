#include "weft/model/ops/cpu/embedding.h"

#include <algorithm>

#include "weft/model/ops/cpu/row_blocks.h"
#include "weft/model/ops/cpu/row_kernels.h"

namespace weft::cpu {

template <class T>
void embedding_forward(ThreadTeam& team, const std::int32_t* tokens, const T* table, T* y, std::size_t rows,
                       std::size_t n) {
  for_rows(team, rows, [&](std::size_t row) {
    std::copy_n(table + static_cast<std::size_t>(tokens[row]) * n, n, y + row * n);
  });
}

template <class T>
void embedding_backward(ThreadTeam& team, const std::int32_t* tokens, const T* dy, float* table_gradient,
                        std::size_t rows, std::size_t n) {
  constexpr std::size_t block_columns = 64;
  const auto& kernels = row_kernels<T>();
  // Threads share columns, not rows: two rows may hold the same token.
  team.parallel_for((n + block_columns - 1) / block_columns, [&](std::size_t block) {
    const std::size_t first = block * block_columns;
    const std::size_t count = std::min(block_columns, n - first);
    for (std::size_t row = 0; row < rows; ++row) {
      if (row % 128 == 127) team.poll();
      kernels.accumulate(dy + row * n + first,
                         table_gradient + static_cast<std::size_t>(tokens[row]) * n + first, count);
    }
  });
}

template void embedding_forward(ThreadTeam&, const std::int32_t*, const float*, float*, std::size_t,
                                std::size_t);
template void embedding_forward(ThreadTeam&, const std::int32_t*, const BFloat16*, BFloat16*, std::size_t,
                                std::size_t);
template void embedding_backward(ThreadTeam&, const std::int32_t*, const float*, float*, std::size_t,
                                 std::size_t);
template void embedding_backward(ThreadTeam&, const std::int32_t*, const BFloat16*, float*, std::size_t,
                                 std::size_t);

}  // namespace weft::cpu
