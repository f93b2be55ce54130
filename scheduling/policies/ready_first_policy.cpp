#include "weft/scheduling/policies/ready_first_policy.h"

#include <algorithm>

namespace weft {

void ReadyFirstPolicy::begin_step(std::uint64_t, Phase) {
  next_weight_.assign(windows_.size(), 0);
  sweep_.reset();
}

bool ReadyFirstPolicy::can_run(const RankView& view, const Op& op, std::size_t at) const noexcept {
  if (view.issued(op) || !view.inputs_ready(op)) return false;
  const bool adds_weight = op.kind == OpKind::backward || op.kind == OpKind::backward_weight;
  return !adds_weight || op.microbatch == next_weight_[at];
}

const Op* ReadyFirstPolicy::oldest(const RankView& view, OpKind kind) {
  const auto stages = view.stages();
  bool found = false;
  for (std::size_t at = stages.size(); at-- > 0;) {
    const std::uint32_t first = view.next_weight(stages[at]);
    const std::uint32_t end = std::min(view.microbatches(), first + windows_[at]);
    for (std::uint32_t k = first; k < end; ++k) {
      const Op op{k, stages[at], kind, false};
      if (!can_run(view, op, at)) continue;
      if (!found || k < candidate_.microbatch) candidate_ = op;
      found = true;
      break;
    }
  }
  return found ? &candidate_ : nullptr;
}

Decision ReadyFirstPolicy::choose(const RankView& view) {
  if (view.phase() == Phase::evaluate) return sweep_.choose(view);
  const Op* op = oldest(view, splits_backward_ ? OpKind::backward_input : OpKind::backward);
  if (op == nullptr && view.free_slots() > 0) op = oldest(view, OpKind::forward);
  if (op == nullptr && splits_backward_) op = oldest(view, OpKind::backward_weight);
  if (op == nullptr) return Decision::wait();
  if (op->kind == OpKind::backward || op->kind == OpKind::backward_weight) {
    const auto stages = view.stages();
    ++next_weight_[static_cast<std::size_t>(std::lower_bound(stages.begin(), stages.end(), op->stage) -
                                            stages.begin())];
  }
  return Decision::run(*op);
}

std::vector<std::uint32_t> share_slots(std::uint32_t slots, std::uint32_t stages) {
  std::vector<std::uint32_t> shares(stages, slots / stages);
  for (std::uint32_t i = 0; i < slots % stages; ++i) ++shares[i];
  return shares;
}

}  // namespace weft
