// Orders for two stages per rank in V placement: rank r owns stage r (near) and stage 2p-1-r (far).
#include <algorithm>
#include <array>
#include <queue>
#include <utility>

#include "weft/scheduling/orders/orders.h"

namespace weft::orders {

namespace {

enum Side { near = 0, far = 1 };

/// A rank's list under construction. Every kind of op counts its own micro-batches per stage.
class VBuilder {
 public:
  VBuilder(std::uint32_t rank, std::uint32_t ranks, std::uint32_t microbatches)
      : stages_{static_cast<std::uint16_t>(rank), static_cast<std::uint16_t>(2 * ranks - 1 - rank)},
        microbatches_(microbatches) {}

  void f(Side side) { add(OpKind::forward, side, forwards_[side]); }
  void b(Side side) {
    add(OpKind::backward, side, backwards_[side]);
    ++weights_[side];
  }
  void i(Side side) { add(OpKind::backward_input, side, backwards_[side]); }
  void w(Side side) { add(OpKind::backward_weight, side, weights_[side]); }

  /// F and B in one step.
  void overlap(Side forward_side, Side backward_side) {
    f(forward_side);
    list_.back().fused_with_next = true;
    b(backward_side);
  }

  /// How many F of a side have been added.
  [[nodiscard]] std::uint32_t forwards(Side side) const { return forwards_[side]; }
  [[nodiscard]] std::uint32_t weights(Side side) const { return weights_[side]; }
  [[nodiscard]] RankOrder finish() { return std::move(list_); }

 private:
  // ops of micro-batches that do not exist are counted, not listed
  void add(OpKind kind, Side side, std::uint32_t& counter) {
    if (counter < microbatches_) list_.push_back(Op{counter, stages_[side], kind, false});
    ++counter;
  }

  std::array<std::uint16_t, 2> stages_;
  std::uint32_t microbatches_;
  std::array<std::uint32_t, 2> forwards_{}, backwards_{}, weights_{};
  RankOrder list_;
};

RankOrder zbv_rank(std::uint32_t r, const Shape& shape) {
  const std::uint32_t p = shape.ranks;
  const std::uint32_t n = std::max(2 * p - 1, shape.microbatches);
  VBuilder list(r, p, shape.microbatches);
  for (std::uint32_t k = 0; k < 2 * (p - r) - 1; ++k) list.f(near);
  for (std::uint32_t k = 0; k < r; ++k) list.f(far), list.f(near);
  for (std::uint32_t k = 0; k < p - r; ++k) list.f(far), list.i(far), list.w(far);
  while (list.forwards(far) < list.forwards(near) || list.forwards(near) < n) {
    if (list.forwards(near) < n) list.f(near);
    list.i(near), list.w(near);
    list.f(far), list.i(far), list.w(far);
  }
  for (std::uint32_t k = 0; k < r; ++k) list.i(near), list.i(far);
  for (std::uint32_t k = 0; k < p - r; ++k) list.i(near), list.w(near);
  while (list.weights(far) < n) list.w(far);
  while (list.weights(near) < n) list.w(near);
  return list.finish();
}

RankOrder dualpipe_v_rank(std::uint32_t r, const Shape& shape) {
  const std::uint32_t p = shape.ranks;
  const std::uint32_t m = shape.microbatches;
  VBuilder list(r, p, m);
  std::queue<Side> pending;  // I ops whose W is still to come
  const auto input = [&](Side side) { list.i(side), pending.push(side); };
  const auto weight = [&] { list.w(pending.front()), pending.pop(); };

  for (std::uint32_t k = 0; k < 2 * (p - r - 1); ++k) list.f(near);
  for (std::uint32_t k = 0; k < r + 1; ++k) list.f(near), list.f(far);
  for (std::uint32_t k = 0; k < p - r - 1; ++k) input(far), weight(), list.f(far);
  for (std::uint32_t k = 0; k < m - 2 * p + r + 1; ++k) {
    if (k == 0 && r == p - 1)
      list.f(near), list.b(far);  // not fused: the next rank down waits for the F
    else
      list.overlap(near, far);
    list.overlap(far, near);
  }
  for (std::uint32_t k = 0; k < p - r - 1; ++k) list.b(far), list.overlap(far, near);
  for (std::uint32_t k = 0; k < r + 1; ++k) {
    // from the middle on only I runs at once; odd ranks change before the far stage, even ones after it
    const std::uint32_t middle = (r + 1) / 2;
    const bool far_splits = k > middle || (k == middle && r % 2 == 1);
    const bool near_splits = k >= middle;
    far_splits ? input(far) : list.b(far);
    near_splits ? input(near) : list.b(near);
  }
  for (std::uint32_t k = 0; k < p - r - 1; ++k) weight(), input(near);
  while (!pending.empty()) weight();
  return list.finish();
}

}  // namespace

Order zbv(const Shape& shape) {
  Order order;
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) order.push_back(zbv_rank(rank, shape));
  return order;
}

Order dualpipe_v(const Shape& shape) {
  Order order;
  for (std::uint32_t rank = 0; rank < shape.ranks; ++rank) order.push_back(dualpipe_v_rank(rank, shape));
  return order;
}

}  // namespace weft::orders
