#pragma once
// The dynamic policy: works on whatever has arrived.
#include <cstdint>
#include <vector>

#include "weft/scheduling/policies/forward_sweep.h"
#include "weft/scheduling/policy.h"

namespace weft {

/// Backward before forward before W, the oldest micro-batch first. F of micro-batch k is admitted at a stage
/// only while k < (the stage's first micro-batch whose W is not done) + the stage's share of the slots: so
/// the oldest micro-batch always has its place and no rank can fill up with newer ones (a plain cap can
/// deadlock). W comes in micro-batch order.
class ReadyFirstPolicy final : public Policy {
 public:
  /// `windows`: for each stage of the rank (ascending) its share of the slots, at least 1. `splits_backward`:
  /// I and W are named apart; otherwise B, in micro-batch order.
  ReadyFirstPolicy(std::vector<std::uint32_t> windows, bool splits_backward)
      : windows_(std::move(windows)), splits_backward_(splits_backward) {}

  void begin_step(std::uint64_t step, Phase phase) override;
  Decision choose(const RankView& view) override;

 private:
  /// The oldest op of `kind` that can run, at the deepest stage where two are of the same age; null if there
  /// is none.
  [[nodiscard]] const Op* oldest(const RankView& view, OpKind kind);
  [[nodiscard]] bool can_run(const RankView& view, const Op& op, std::size_t at) const noexcept;

  std::vector<std::uint32_t> windows_;
  bool splits_backward_;
  std::vector<std::uint32_t> next_weight_;  // per stage: first micro-batch whose W (or B) has not been named
  Op candidate_;
  ForwardSweep sweep_;
};

/// Shares `slots` among `stages` stages, the first ones get one more where it does not divide.
[[nodiscard]] std::vector<std::uint32_t> share_slots(std::uint32_t slots, std::uint32_t stages);

}  // namespace weft
