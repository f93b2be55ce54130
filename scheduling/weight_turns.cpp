#include "weft/scheduling/weight_turns.h"

#include <algorithm>
#include <utility>

namespace weft {

WeightTurns::WeightTurns(std::span<const std::uint16_t> stages, std::uint32_t microbatches)
    : is_held_(stages.size() * microbatches, false), microbatches_(microbatches) {
  for (const std::uint16_t stage : stages) turns_.push_back(Turn{stage, 0});
}

void WeightTurns::reset() noexcept {
  for (Turn& turn : turns_) turn.next = 0;
  std::fill(is_held_.begin(), is_held_.end(), false);
  held_count_ = 0;
  inside_pair_ = false;
}

std::size_t WeightTurns::position(std::uint16_t stage) const noexcept {
  std::size_t at = 0;
  while (turns_[at].stage != stage) ++at;  // a rank has few stages
  return at;
}

bool WeightTurns::is_held(const Op& op) const noexcept {
  const bool has_weight = op.kind == OpKind::backward || op.kind == OpKind::backward_weight;
  return has_weight && is_held_[position(op.stage) * microbatches_ + op.microbatch];
}

bool WeightTurns::is_past(const Op& op) const noexcept {
  const bool has_weight = op.kind == OpKind::backward || op.kind == OpKind::backward_weight;
  return has_weight && op.microbatch < turns_[position(op.stage)].next;
}

std::optional<Op> WeightTurns::admit(const Op& wished) noexcept {
  inside_pair_ = wished.fused_with_next;
  if (wished.kind != OpKind::backward && wished.kind != OpKind::backward_weight) return wished;
  const std::size_t at = position(wished.stage);
  if (wished.microbatch == turns_[at].next) {
    ++turns_[at].next;
    return wished;
  }
  is_held_[at * microbatches_ + wished.microbatch] = true;
  ++held_count_;
  if (wished.kind == OpKind::backward_weight) return std::nullopt;
  Op input = wished;
  input.kind = OpKind::backward_input;
  return input;
}

std::optional<Op> WeightTurns::take_due() noexcept {
  if (held_count_ == 0 || inside_pair_) return std::nullopt;
  for (std::size_t at = 0; at < turns_.size(); ++at) {
    Turn& turn = turns_[at];
    if (turn.next == microbatches_ || !is_held_[at * microbatches_ + turn.next]) continue;
    is_held_[at * microbatches_ + turn.next] = false;
    --held_count_;
    return Op{turn.next++, turn.stage, OpKind::backward_weight, false};
  }
  return std::nullopt;
}

namespace {

WeightTurns turns_of(const RankOrder& order) {
  std::vector<std::uint16_t> stages;
  std::uint32_t microbatches = 0;
  for (const Op& op : order) {
    if (std::find(stages.begin(), stages.end(), op.stage) == stages.end()) stages.push_back(op.stage);
    microbatches = std::max(microbatches, op.microbatch + 1);
  }
  return WeightTurns(stages, microbatches);
}

}  // namespace

RankOrder as_run(const RankOrder& order) {
  WeightTurns turns = turns_of(order);
  RankOrder executed;
  executed.reserve(order.size());
  for (const Op& op : order) {
    if (const auto admitted = turns.admit(op)) executed.push_back(*admitted);
    while (const auto due = turns.take_due()) executed.push_back(*due);
  }
  return executed;
}

Order as_run(const Order& order) {
  Order executed;
  for (const RankOrder& rank : order) executed.push_back(as_run(rank));
  return executed;
}

bool is_in_turn(const RankOrder& order) {
  std::vector<std::pair<std::uint16_t, std::uint32_t>> next;  // (stage, micro-batch)
  for (const Op& op : order) {
    if (op.kind != OpKind::backward && op.kind != OpKind::backward_weight) continue;
    auto at = next.begin();
    while (at != next.end() && at->first != op.stage) ++at;  // a rank has few stages
    if (at == next.end()) at = next.insert(at, {op.stage, 0});
    if (op.microbatch != at->second++) return false;
  }
  return true;
}

}  // namespace weft
