#include "weft/scheduling/policies/in_turn_policy.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"

namespace weft {

InTurnPolicy::InTurnPolicy(std::unique_ptr<Policy> inner, std::vector<std::uint16_t> stages,
                           std::uint32_t microbatches)
    : inner_(std::move(inner)),
      stages_(std::move(stages)),
      microbatches_(microbatches),
      turns_(stages_, microbatches),
      held_since_(stages_.size() * microbatches, 0) {}

void InTurnPolicy::begin_step(std::uint64_t step, Phase phase) {
  turns_.reset();
  due_.reset();
  inner_->begin_step(step, phase);
}

Nanoseconds& InTurnPolicy::held_since(const Op& op) noexcept {
  const auto at = std::find(stages_.begin(), stages_.end(), op.stage) - stages_.begin();
  return held_since_[static_cast<std::size_t>(at) * microbatches_ + op.microbatch];
}

Decision InTurnPolicy::choose(const RankView& view) {
  for (;;) {
    if (!due_) due_ = turns_.take_due();
    if (due_) {
      if (!view.inputs_ready(*due_)) return Decision::wait();
      const Op weight = *std::exchange(due_, std::nullopt);
      return Decision::run_held(weight, held_since(weight));
    }
    const Decision decision = inner_->choose(view);
    if (decision.op() == nullptr) return decision;
    const Op wished = *decision.op();
    if (view.owns(wished) && turns_.is_held(wished))
      throw ScheduleError(
          fmt::format("rank {}: the policy named {} again while that is held until {}W{} has run; it must "
                      "remember what it "
                      "named, or name W in turn (RankView::next_weight)",
                      view.rank(), to_string(wished), wished.stage, view.next_weight(wished.stage)));
    const char* rule = view.broken_rule(wished);
    if (rule == nullptr && turns_.is_past(wished)) rule = "it has been issued before";
    if (rule != nullptr)
      throw ScheduleError(
          fmt::format("rank {}: the policy names {}: {}", view.rank(), to_string(wished), rule));
    const std::optional<Op> admitted = turns_.admit(wished);
    if (admitted == wished) return decision;
    held_since(wished) = view.now();
    if (admitted) return Decision::run_holding_weight(*admitted);
  }
}

}  // namespace weft
