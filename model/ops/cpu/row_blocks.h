#pragma once
// How the ops cut matrices into blocks for threads.
#include <algorithm>
#include <cstddef>

#include "weft/model/ops/cpu/thread_team.h"

namespace weft::cpu {

/// Rows of one block. Fixed, because sums over rows are built from one partial sum per block.
inline constexpr std::size_t block_rows = 32;

[[nodiscard]] constexpr std::size_t row_blocks(std::size_t rows) noexcept {
  return (rows + block_rows - 1) / block_rows;
}

/// function(row) for every row, in blocks of block_rows on the team's threads.
template <class Function>
void for_rows(ThreadTeam& team, std::size_t rows, Function&& function) {
  team.parallel_for(row_blocks(rows), [&](std::size_t block) {
    const std::size_t end = std::min(rows, (block + 1) * block_rows);
    for (std::size_t row = block * block_rows; row < end; ++row) function(row);
  });
}

}  // namespace weft::cpu
