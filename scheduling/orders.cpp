#include "weft/scheduling/orders.h"

#include <algorithm>

namespace weft::orders {

namespace {

Op op(OpKind kind, std::uint32_t stage, std::uint32_t microbatch) {
  return Op{microbatch, static_cast<std::uint16_t>(stage), kind, false};
}

}  // namespace

Order afab(const Shape& shape) {
  Order order(shape.ranks);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    order[rank].reserve(2 * shape.microbatches);
    for (const OpKind kind : {OpKind::forward, OpKind::backward})
      for (std::uint32_t k = 0; k < shape.microbatches; ++k) order[rank].push_back(op(kind, rank, k));
  }
  return order;
}

Order one_f_one_b(const Shape& shape) {
  const std::uint32_t m = shape.microbatches;
  Order order(shape.ranks);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    const std::uint32_t warmup = std::min(m, shape.ranks - 1 - rank);
    RankOrder& list = order[rank];
    list.reserve(2 * m);
    for (std::uint32_t k = 0; k < warmup; ++k) list.push_back(op(OpKind::forward, rank, k));
    for (std::uint32_t k = 0; k < m; ++k) {
      if (warmup + k < m) list.push_back(op(OpKind::forward, rank, warmup + k));
      list.push_back(op(OpKind::backward, rank, k));
    }
  }
  return order;
}

}  // namespace weft::orders
