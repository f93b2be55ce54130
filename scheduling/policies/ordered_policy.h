#pragma once
// Every static schedule: a list of ops that is followed to the letter.
#include <cstddef>
#include <span>

#include "weft/scheduling/policies/forward_sweep.h"
#include "weft/scheduling/policy.h"

namespace weft {

/// Names the head of its list once that op's inputs (and, for F, a slot) are there, and waits otherwise. A
/// fused pair starts when both halves' inputs are there. In evaluation it sweeps forward without looking at
/// the list.
class OrderedPolicy final : public Policy {
 public:
  /// `order`: the rank's ops of one step; it outlives the policy.
  explicit OrderedPolicy(const RankOrder& order) : order_(order) {}
  explicit OrderedPolicy(RankOrder&& order) = delete;

  void begin_step(std::uint64_t step, Phase phase) override;
  Decision choose(const RankView& view) override;

 private:
  [[nodiscard]] bool ready(const RankView& view) const noexcept;

  std::span<const Op> order_;
  std::size_t head_ = 0;
  ForwardSweep sweep_;
};

}  // namespace weft
