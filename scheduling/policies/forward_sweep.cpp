#include "weft/scheduling/policies/forward_sweep.h"

namespace weft {

Decision ForwardSweep::choose(const RankView& view) {
  const auto stages = view.stages();
  if (next_.empty()) next_.resize(stages.size(), 0);  // keeps its memory from step to step
  if (view.free_slots() == 0) return Decision::wait();
  for (std::size_t at = stages.size(); at-- > 0;) {
    if (next_[at] == view.microbatches()) continue;
    // What a stage hands to the next one of the same rank lies in few buffers.
    const bool next_is_here = at + 1 < stages.size() && stages[at + 1] == stages[at] + 1;
    if (next_is_here && next_[at + 1] < next_[at]) continue;
    const Op op{next_[at], stages[at], OpKind::forward, false};
    if (!view.inputs_ready(op)) continue;
    ++next_[at];
    return Decision::run(op);
  }
  return Decision::wait();
}

}  // namespace weft
