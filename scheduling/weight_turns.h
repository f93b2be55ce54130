#pragma once
// The rule that makes results exact: every stage adds its weight gradients in micro-batch order.
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "weft/scheduling/op.h"

namespace weft {

/// Keeps the turns of one rank's W ops. A wished B out of turn becomes its I and its W is held; a W out of
/// turn is held; a held W is due as soon as it is next in turn at its stage. Allocates in the constructor
/// only.
class WeightTurns {
 public:
  /// `stages`: the rank's stages.
  WeightTurns(std::span<const std::uint16_t> stages, std::uint32_t microbatches);

  /// A new step: nothing has run.
  void reset() noexcept;

  /// Takes the next wished op and says which op runs in its place now: itself, the I of a B whose W is held,
  /// or nothing when it is a W that is held.
  [[nodiscard]] std::optional<Op> admit(const Op& wished) noexcept;

  /// A held W whose turn has come, taken off the list of held ones. Never between the halves of a fused pair.
  [[nodiscard]] std::optional<Op> take_due() noexcept;

  /// True for a B or W whose W is held at present.
  [[nodiscard]] bool is_held(const Op& op) const noexcept;
  /// True for a B or W whose W has had its turn.
  [[nodiscard]] bool is_past(const Op& op) const noexcept;

 private:
  struct Turn {
    std::uint16_t stage;
    std::uint32_t next;
  };
  [[nodiscard]] std::size_t position(std::uint16_t stage) const noexcept;

  std::vector<Turn> turns_;
  std::vector<bool> is_held_;  // position * microbatches + micro-batch
  std::uint32_t microbatches_;
  std::uint32_t held_count_ = 0;
  bool inside_pair_ = false;
};

/// One rank's order as a run executes it: held W's moved to the place where they run, each right after the op
/// (or fused pair) that makes it next in turn. The same list where every W comes in micro-batch order
/// already. `order` has been checked.
[[nodiscard]] RankOrder as_run(const RankOrder& order);

/// The same for all ranks.
[[nodiscard]] Order as_run(const Order& order);

/// True when every B and W comes in micro-batch order, so that nothing is held.
[[nodiscard]] bool is_in_turn(const RankOrder& order);

}  // namespace weft
