#include "weft/scheduling/policies/ordered_policy.h"

namespace weft {

void OrderedPolicy::begin_step(std::uint64_t, Phase) {
  head_ = 0;
  sweep_.reset();
}

bool OrderedPolicy::ready(const RankView& view) const noexcept {
  const Op& op = order_[head_];
  if (op.kind == OpKind::forward && view.free_slots() == 0) return false;
  if (!view.inputs_ready(op)) return false;
  if (!op.fused_with_next) return true;
  const Op& second = order_[head_ + 1];
  const bool waits_for_first = second.stage == op.stage && second.microbatch == op.microbatch;
  return waits_for_first || view.inputs_ready(second);
}

Decision OrderedPolicy::choose(const RankView& view) {
  if (view.phase() == Phase::evaluate) return sweep_.choose(view);
  if (head_ == order_.size() || !ready(view)) return Decision::wait();
  return Decision::run(order_[head_++]);
}

}  // namespace weft
