#pragma once
// Makes any policy exact: weight gradients are added in micro-batch order.
#include <memory>
#include <optional>
#include <vector>

#include "weft/scheduling/policy.h"
#include "weft/scheduling/weight_turns.h"

namespace weft {

/// Stands before another policy and keeps its W ops in turn: a B that it names out of turn runs as its I, a W
/// out of turn is held, and held W's run as soon as they are next in turn at their stage, before anything
/// else is named.
class InTurnPolicy final : public Policy {
 public:
  /// `stages`: the rank's stages, ascending.
  InTurnPolicy(std::unique_ptr<Policy> inner, std::vector<std::uint16_t> stages, std::uint32_t microbatches);

  void begin_step(std::uint64_t step, Phase phase) override;
  /// Throws ScheduleError, naming rank, op and rule, when the inner policy names an op that may not be issued
  /// now, or a W again that is held already.
  Decision choose(const RankView& view) override;

 private:
  [[nodiscard]] Nanoseconds& held_since(const Op& op) noexcept;

  std::unique_ptr<Policy> inner_;
  std::vector<std::uint16_t> stages_;
  std::uint32_t microbatches_;
  WeightTurns turns_;
  std::vector<Nanoseconds> held_since_;  // position of the stage * microbatches + micro-batch
  std::optional<Op> due_;
};

}  // namespace weft
