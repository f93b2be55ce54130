#include "weft/model/ops/cpu/cross_entropy.h"

#include <algorithm>

#include "weft/model/ops/cpu/row_kernels.h"

namespace weft::cpu {

template <class T>
double cross_entropy(ThreadTeam& team, float* logits, const std::int32_t* targets, float scale, T* gradient,
                     double* losses, std::size_t rows, std::size_t vocabulary) {
  const std::size_t rows_of_block =
      std::max<std::size_t>(1, 65536 / vocabulary);  // for the polls between blocks
  const auto& kernels = row_kernels<T>();
  team.parallel_for((rows + rows_of_block - 1) / rows_of_block, [&](std::size_t block) {
    const std::size_t end = std::min(rows, (block + 1) * rows_of_block);
    for (std::size_t row = block * rows_of_block; row < end; ++row) {
      const std::size_t at = row * vocabulary;
      losses[row] = kernels.cross_entropy(logits + at, vocabulary, static_cast<std::uint32_t>(targets[row]),
                                          scale, gradient + at);
    }
  });
  double sum = 0;
  for (std::size_t row = 0; row < rows; ++row) sum += losses[row];
  return sum;
}

template double cross_entropy(ThreadTeam&, float*, const std::int32_t*, float, float*, double*, std::size_t,
                              std::size_t);
template double cross_entropy(ThreadTeam&, float*, const std::int32_t*, float, BFloat16*, double*,
                              std::size_t, std::size_t);

}  // namespace weft::cpu
