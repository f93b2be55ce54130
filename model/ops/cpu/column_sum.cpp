#include "weft/model/ops/cpu/column_sum.h"

#include <algorithm>

#include "weft/model/ops/cpu/row_blocks.h"
#include "weft/model/ops/cpu/row_kernels.h"

namespace weft::cpu {

std::size_t column_sum_workspace(std::size_t rows, std::size_t n) { return row_blocks(rows) * n; }

template <class T>
void column_sum(ThreadTeam& team, const T* x, float* sum, std::size_t rows, std::size_t n, float* workspace) {
  const auto& kernels = row_kernels<T>();
  team.parallel_for(row_blocks(rows), [&](std::size_t block) {
    float* partial = workspace + block * n;
    std::fill_n(partial, n, 0.0f);
    const std::size_t end = std::min(rows, (block + 1) * block_rows);
    for (std::size_t row = block * block_rows; row < end; ++row) kernels.accumulate(x + row * n, partial, n);
  });
  add_partial_sums(workspace, row_blocks(rows), sum, n);
}

void add_partial_sums(const float* partial, std::size_t blocks, float* sum, std::size_t n) {
  std::fill_n(sum, n, 0.0f);
  for (std::size_t block = 0; block < blocks; ++block)
    row_kernels<float>().accumulate(partial + block * n, sum, n);
}

template void column_sum(ThreadTeam&, const float*, float*, std::size_t, std::size_t, float*);
template void column_sum(ThreadTeam&, const BFloat16*, float*, std::size_t, std::size_t, float*);

}  // namespace weft::cpu
