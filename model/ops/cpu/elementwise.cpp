#include "weft/model/ops/cpu/elementwise.h"

#include <algorithm>

#include "weft/model/ops/cpu/row_blocks.h"
#include "weft/model/ops/cpu/row_kernels.h"

namespace weft::cpu {

template <class T>
void add(ThreadTeam& team, const T* a, const T* b, T* y, std::size_t rows, std::size_t n) {
  const auto& kernels = row_kernels<T>();
  for_rows(team, rows, [&](std::size_t row) { kernels.add(a + row * n, b + row * n, y + row * n, n); });
}

template <class T>
void add_bias(ThreadTeam& team, T* x, const T* bias, std::size_t rows, std::size_t n) {
  const auto& kernels = row_kernels<T>();
  for_rows(team, rows, [&](std::size_t row) { kernels.add(x + row * n, bias, x + row * n, n); });
}

template <class T>
void copy(ThreadTeam& team, const T* x, T* y, std::size_t rows, std::size_t n) {
  for_rows(team, rows, [&](std::size_t row) { std::copy_n(x + row * n, n, y + row * n); });
}

template void add(ThreadTeam&, const float*, const float*, float*, std::size_t, std::size_t);
template void add(ThreadTeam&, const BFloat16*, const BFloat16*, BFloat16*, std::size_t, std::size_t);
template void add_bias(ThreadTeam&, float*, const float*, std::size_t, std::size_t);
template void add_bias(ThreadTeam&, BFloat16*, const BFloat16*, std::size_t, std::size_t);
template void copy(ThreadTeam&, const float*, float*, std::size_t, std::size_t);
template void copy(ThreadTeam&, const BFloat16*, BFloat16*, std::size_t, std::size_t);

}  // namespace weft::cpu
