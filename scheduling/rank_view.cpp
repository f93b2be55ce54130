#include "weft/scheduling/rank_view.h"

#include <algorithm>
#include <utility>

namespace weft {

std::uint8_t RankView::issued_bits(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::forward:
      return forward_issued;
    case OpKind::backward:
      return input_issued | weight_issued;
    case OpKind::backward_input:
      return input_issued;
    case OpKind::backward_weight:
      return weight_issued;
  }
  return 0;
}

std::uint8_t RankView::completed_bits(OpKind kind) noexcept {
  switch (kind) {
    case OpKind::forward:
      return forward_completed;
    case OpKind::backward:
      return input_completed | weight_completed;
    case OpKind::backward_input:
      return input_completed;
    case OpKind::backward_weight:
      return weight_completed;
  }
  return 0;
}

const char* RankView::broken_rule(const Op& op) const noexcept {
  if (!owns(op)) return "it is no op of this rank";
  if (phase_ == Phase::evaluate && op.kind != OpKind::forward) return "an evaluation runs F alone";
  const std::uint8_t state = state_[index(op.stage, op.microbatch)];
  // A held W counts as issued until it runs.
  const std::uint8_t repeats = op.kind == OpKind::backward_weight ? weight_completed
                               : op.kind == OpKind::forward       ? forward_issued
                                                                  : input_issued;
  if ((state & repeats) != 0) return "it has been issued before";
  if (!inputs_ready(op)) return "its inputs are not there";
  if (op.kind == OpKind::forward && free_slots() == 0) return "all slots of the rank are taken";
  return nullptr;
}

bool RankView::inputs_ready(const Op& op) const noexcept {
  if (!owns(op)) return false;
  const std::uint8_t state = state_[index(op.stage, op.microbatch)];
  switch (op.kind) {
    case OpKind::forward:
      return op.stage == 0 || (state & activation_arrived) != 0;
    case OpKind::backward:
    case OpKind::backward_input:
      return (state & forward_completed) != 0 &&
             (op.stage + 1u == stage_count_ || (state & gradient_arrived) != 0);
    case OpKind::backward_weight:
      return (state & input_completed) != 0;
  }
  return false;
}

bool RankView::issued(const Op& op) const noexcept {
  if (!owns(op)) return false;
  const std::uint8_t bits = issued_bits(op.kind);
  return (state_[index(op.stage, op.microbatch)] & bits) == bits;
}

bool RankView::completed(const Op& op) const noexcept {
  if (!owns(op)) return false;
  const std::uint8_t bits = completed_bits(op.kind);
  return (state_[index(op.stage, op.microbatch)] & bits) == bits;
}

std::uint32_t RankView::next_weight(std::uint16_t stage) const noexcept {
  const std::uint16_t at = position(stage);
  return at == not_here ? 0 : next_weight_[at];
}

RankState::RankState(std::uint32_t rank, std::uint32_t stage_count, std::vector<std::uint16_t> stages,
                     std::uint32_t microbatches, std::uint32_t slots) {
  rank_ = rank;
  microbatches_ = microbatches;
  stage_count_ = stage_count;
  slots_ = slots;
  stages_ = std::move(stages);
  local_.assign(stages_.back() - stages_.front() + 1u, not_here);
  for (std::size_t i = 0; i < stages_.size(); ++i)
    local_[static_cast<std::size_t>(stages_[i] - stages_.front())] = static_cast<std::uint16_t>(i);
  state_.assign(stages_.size() * microbatches, 0);
  next_weight_.assign(stages_.size(), 0);
}

void RankState::begin_step(Phase phase) noexcept {
  phase_ = phase;
  in_flight_ = 0;
  std::fill(state_.begin(), state_.end(), std::uint8_t{0});
  std::fill(next_weight_.begin(), next_weight_.end(), 0u);
}

void RankState::mark_arrived(OpKind needed_by, std::uint16_t stage, std::uint32_t microbatch) noexcept {
  state_[index(stage, microbatch)] |= needed_by == OpKind::forward ? activation_arrived : gradient_arrived;
}

void RankState::mark_issued(const Op& op) noexcept {
  state_[index(op.stage, op.microbatch)] |= issued_bits(op.kind);
  if (op.kind == OpKind::forward) ++in_flight_;
}

void RankState::mark_held(std::uint16_t stage, std::uint32_t microbatch) noexcept {
  state_[index(stage, microbatch)] |= weight_issued;
}

void RankState::mark_completed(const Op& op) noexcept {
  state_[index(op.stage, op.microbatch)] |= completed_bits(op.kind);
  const bool last_of_pair = phase_ == Phase::evaluate
                                ? op.kind == OpKind::forward
                                : op.kind == OpKind::backward || op.kind == OpKind::backward_weight;
  if (last_of_pair) --in_flight_;
  if (phase_ == Phase::evaluate || !last_of_pair) return;
  std::uint32_t& next = next_weight_[position(op.stage)];
  while (next < microbatches_ && (state_[index(op.stage, next)] & weight_completed) != 0) ++next;
}

}  // namespace weft
