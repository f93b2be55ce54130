#include <algorithm>
#include <queue>
#include <utility>

#include "weft/scheduling/orders/orders.h"

namespace weft::orders {

namespace {

/// A rank's list under construction. W ops are taken first in, first out over the I ops so far.
class Builder {
 public:
  void forward(std::uint32_t stage, std::uint32_t microbatch) { push(OpKind::forward, stage, microbatch); }
  void backward_input(std::uint32_t stage, std::uint32_t microbatch) {
    push(OpKind::backward_input, stage, microbatch);
    pending_.push(list_.back());
  }
  void backward_weight() {
    const Op input = pending_.front();
    pending_.pop();
    push(OpKind::backward_weight, input.stage, input.microbatch);
  }
  [[nodiscard]] RankOrder finish() {
    while (!pending_.empty()) backward_weight();
    return std::move(list_);
  }

 private:
  void push(OpKind kind, std::uint32_t stage, std::uint32_t microbatch) {
    list_.push_back(Op{microbatch, static_cast<std::uint16_t>(stage), kind, false});
  }
  RankOrder list_;
  std::queue<Op> pending_;
};

}  // namespace

Order zb_h1(const Shape& shape) {
  const std::vector<ChunkStep> steps = interleaved_steps(shape);
  const std::size_t group = groups(shape.ranks, shape.microbatches).front();
  Order order;
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) {
    const auto stage = [&](std::uint32_t chunk) { return chunk * shape.ranks + rank; };
    const std::size_t warmup = std::min((shape.chunks - 1) * group + shape.ranks - 1 - rank, steps.size());
    Builder list;
    for (std::size_t i = 0; i < steps.size() + warmup; ++i) {
      if (i < steps.size()) list.forward(stage(steps[i].chunk), steps[i].microbatch);
      if (i < warmup) continue;
      const ChunkStep& back = steps[i - warmup];
      list.backward_input(stage(shape.chunks - 1 - back.chunk), back.microbatch);
      // rank r keeps r W's in hand: they fill the gaps of the ramp down
      if (i - warmup >= rank) list.backward_weight();
    }
    order.push_back(list.finish());
  }
  return order;
}

Order zb_h2(const Shape& shape) {
  const std::uint32_t p = shape.ranks;
  const std::uint32_t m = shape.microbatches;
  Order order;
  for (std::uint32_t rank = 0; rank < p; ++rank) {
    const std::uint32_t planned_warmup = 2 * (p - rank - 1);
    const std::uint32_t warmup = std::min(planned_warmup, m);
    Builder list;
    for (std::uint32_t k = 0; k < warmup; ++k) list.forward(rank, k);
    for (std::uint32_t k = 0; k < m; ++k) {
      if (warmup + k < m) list.forward(rank, warmup + k);
      list.backward_input(rank, k);
      if (planned_warmup + k >= 2 * (p - 1)) list.backward_weight();
    }
    order.push_back(list.finish());
  }
  return order;
}

}  // namespace weft::orders
