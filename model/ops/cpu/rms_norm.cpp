#include "weft/model/ops/cpu/rms_norm.h"

#include <algorithm>

#include "weft/model/ops/cpu/column_sum.h"
#include "weft/model/ops/cpu/row_blocks.h"
#include "weft/model/ops/cpu/row_kernels.h"

namespace weft::cpu {

template <class T>
void rms_norm_forward(ThreadTeam& team, const T* x, const T* gain, T* y, float* inverse_rms, std::size_t rows,
                      std::size_t n, float epsilon) {
  const auto& kernels = row_kernels<T>();
  for_rows(team, rows, [&](std::size_t row) {
    inverse_rms[row] = kernels.rms_norm(x + row * n, gain, y + row * n, n, epsilon);
  });
}

template <class T>
void add_rms_norm_forward(ThreadTeam& team, const T* a, const T* b, const T* gain, T* sum, T* y,
                          float* inverse_rms, std::size_t rows, std::size_t n, float epsilon) {
  const auto& kernels = row_kernels<T>();
  for_rows(team, rows, [&](std::size_t row) {
    const std::size_t at = row * n;
    inverse_rms[row] = kernels.add_rms_norm(a + at, b + at, gain, sum + at, y + at, n, epsilon);
  });
}

std::size_t rms_norm_backward_workspace(std::size_t rows, std::size_t n) { return row_blocks(rows) * n; }

template <class T>
void rms_norm_backward(ThreadTeam& team, const T* x, const float* inverse_rms, const T* gain, const T* dy,
                       const T* residual, T* dx, T* y, float* gain_gradient, std::size_t rows, std::size_t n,
                       float* workspace) {
  const auto& kernels = row_kernels<T>();
  team.parallel_for(row_blocks(rows), [&](std::size_t block) {
    float* partial = workspace + block * n;
    std::fill_n(partial, n, 0.0f);
    const std::size_t end = std::min(rows, (block + 1) * block_rows);
    for (std::size_t row = block * block_rows; row < end; ++row) {
      const std::size_t at = row * n;
      kernels.rms_norm_backward(x + at, inverse_rms[row], gain, dy + at,
                                residual == nullptr ? nullptr : residual + at, dx + at, y + at, partial, n);
    }
  });
  add_partial_sums(workspace, row_blocks(rows), gain_gradient, n);
}

template void rms_norm_forward(ThreadTeam&, const float*, const float*, float*, float*, std::size_t,
                               std::size_t, float);
template void rms_norm_forward(ThreadTeam&, const BFloat16*, const BFloat16*, BFloat16*, float*, std::size_t,
                               std::size_t, float);
template void add_rms_norm_forward(ThreadTeam&, const float*, const float*, const float*, float*, float*,
                                   float*, std::size_t, std::size_t, float);
template void add_rms_norm_forward(ThreadTeam&, const BFloat16*, const BFloat16*, const BFloat16*, BFloat16*,
                                   BFloat16*, float*, std::size_t, std::size_t, float);
template void rms_norm_backward(ThreadTeam&, const float*, const float*, const float*, const float*,
                                const float*, float*, float*, float*, std::size_t, std::size_t, float*);
template void rms_norm_backward(ThreadTeam&, const BFloat16*, const float*, const BFloat16*, const BFloat16*,
                                const BFloat16*, BFloat16*, BFloat16*, float*, std::size_t, std::size_t,
                                float*);

}  // namespace weft::cpu
