#include "weft/model/ops/cpu/rope.h"

#include "weft/model/ops/cpu/row_blocks.h"
#include "weft/model/ops/cpu/row_kernels.h"

namespace weft::cpu {

template <class T>
void rope_forward(ThreadTeam& team, T* x, const float* cosine, const float* sine, std::size_t rows,
                  std::size_t sequence, std::size_t heads, std::size_t head_dim, std::size_t row_stride) {
  const auto& kernels = row_kernels<T>();
  const std::size_t half = head_dim / 2;
  for_rows(team, rows, [&](std::size_t row) {
    const std::size_t angles = row % sequence * half;
    for (std::size_t head = 0; head < heads; ++head)
      kernels.rotate(x + row * row_stride + head * head_dim, cosine + angles, sine + angles, half);
  });
}

template void rope_forward(ThreadTeam&, float*, const float*, const float*, std::size_t, std::size_t,
                           std::size_t, std::size_t, std::size_t);
template void rope_forward(ThreadTeam&, BFloat16*, const float*, const float*, std::size_t, std::size_t,
                           std::size_t, std::size_t, std::size_t);

}  // namespace weft::cpu
