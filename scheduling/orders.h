#pragma once
// The rules that produce the published orders. Each takes p ranks, v stages per rank and m micro-batches, all
// at least 1, and returns the order of every rank as published: a B is one op, no W is held. The placement
// and the allowed v and m are those of the schedule's entry in schedule.h, which checks them.
#include <cstdint>

#include "weft/scheduling/op.h"

namespace weft::orders {

/// The size of a schedule.
struct Shape {
  std::uint32_t ranks;
  std::uint32_t chunks;  ///< stages per rank
  std::uint32_t microbatches;
};

/// All forward, then all backward, both in micro-batch order. GPipe, arXiv 1811.06965.
[[nodiscard]] Order afab(const Shape& shape);

/// One forward, one backward after a warm-up of min(m, p-1-r) F. Narayanan et al. 2021, arXiv 2104.04473.
[[nodiscard]] Order one_f_one_b(const Shape& shape);

}  // namespace weft::orders
