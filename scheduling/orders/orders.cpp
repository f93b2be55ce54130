#include "weft/scheduling/orders/orders.h"

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

std::vector<std::uint32_t> groups(std::uint32_t ranks, std::uint32_t microbatches) {
  const std::uint32_t rounds = std::max(1u, microbatches / ranks);
  std::vector<std::uint32_t> sizes(rounds, microbatches / rounds);
  for (std::uint32_t i = 0; i < microbatches % rounds; ++i) ++sizes[i];
  return sizes;
}

std::vector<ChunkStep> interleaved_steps(const Shape& shape) {
  std::vector<ChunkStep> steps;
  steps.reserve(std::size_t{shape.chunks} * shape.microbatches);
  std::uint32_t first = 0;
  for (const std::uint32_t size : groups(shape.ranks, shape.microbatches)) {
    for (std::uint32_t chunk = 0; chunk < shape.chunks; ++chunk)
      for (std::uint32_t k = first; k < first + size; ++k) steps.push_back({chunk, k});
    first += size;
  }
  return steps;
}

Order interleaved_one_f_one_b(const Shape& shape) {
  const std::vector<ChunkStep> steps = interleaved_steps(shape);
  const std::size_t group = groups(shape.ranks, shape.microbatches).front();
  Order order(shape.ranks);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    const auto stage = [&](std::uint32_t chunk) { return chunk * shape.ranks + rank; };
    const std::size_t warmup =
        std::min((shape.chunks - 1) * group + 2 * (shape.ranks - 1 - rank), steps.size());
    RankOrder& list = order[rank];
    list.reserve(2 * steps.size());
    for (std::size_t i = 0; i < steps.size() + warmup; ++i) {
      if (i < steps.size()) list.push_back(op(OpKind::forward, stage(steps[i].chunk), steps[i].microbatch));
      if (i < warmup) continue;
      const ChunkStep& back = steps[i - warmup];
      list.push_back(op(OpKind::backward, stage(shape.chunks - 1 - back.chunk), back.microbatch));
    }
  }
  return order;
}

Order looped_bfs(const Shape& shape) {
  Order order(shape.ranks);
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    RankOrder& list = order[rank];
    list.reserve(std::size_t{2} * shape.chunks * shape.microbatches);
    for (std::uint32_t chunk = 0; chunk < shape.chunks; ++chunk)
      for (std::uint32_t k = 0; k < shape.microbatches; ++k)
        list.push_back(op(OpKind::forward, chunk * shape.ranks + rank, k));
    for (std::uint32_t chunk = shape.chunks; chunk-- > 0;)
      for (std::uint32_t k = shape.microbatches; k-- > 0;)
        list.push_back(op(OpKind::backward, chunk * shape.ranks + rank, k));
  }
  return order;
}

}  // namespace weft::orders
