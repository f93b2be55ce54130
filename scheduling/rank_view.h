#pragma once
// What a policy sees of its rank: which inputs have arrived, which ops are issued and completed, how many
// slots are taken. The stage actor and the simulator each own one RankState and show it as a RankView.
#include <cstdint>
#include <span>
#include <vector>

#include "weft/base/clock.h"
#include "weft/scheduling/op.h"

namespace weft {

/// Read access for policies. All questions are answered from flat arrays, without allocation, in O(1).
class RankView {
 public:
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  [[nodiscard]] std::uint32_t microbatches() const noexcept { return microbatches_; }
  [[nodiscard]] std::uint32_t stage_count() const noexcept {
    return stage_count_;
  }  ///< of the whole pipeline
  /// The rank's stages by their global number, ascending.
  [[nodiscard]] std::span<const std::uint16_t> stages() const noexcept { return stages_; }
  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] Nanoseconds now() const noexcept { return now_; }

  /// True for an op of one of the rank's stages on one of the step's micro-batches. Any other op is never
  /// ready, issued or completed.
  [[nodiscard]] bool owns(const Op& op) const noexcept {
    return op.microbatch < microbatches_ && position(op.stage) < stages_.size();
  }
  /// The rule that `op` would break if it were issued now, a sentence for messages; null when it breaks none.
  [[nodiscard]] const char* broken_rule(const Op& op) const noexcept;
  /// True when everything `op` needs is there: for F the activation (always, at stage 0); for I and B the
  /// output gradient (at the last stage: its own F completed) and the op's F completed; for W its I
  /// completed.
  [[nodiscard]] bool inputs_ready(const Op& op) const noexcept;
  [[nodiscard]] bool issued(const Op& op) const noexcept;     ///< B counts as I and W both
  [[nodiscard]] bool completed(const Op& op) const noexcept;  ///< B counts as I and W both

  /// (stage, micro-batch) pairs in flight: from the start of F to the end of the last backward op.
  [[nodiscard]] std::uint32_t in_flight() const noexcept { return in_flight_; }
  /// Pairs the rank may hold at once; F may not be issued above it.
  [[nodiscard]] std::uint32_t slots() const noexcept { return slots_; }
  [[nodiscard]] std::uint32_t free_slots() const noexcept { return slots_ - in_flight_; }
  /// The micro-batch whose W is next in turn at `stage` (all below are done): weight gradients are added in
  /// order. 0 for a stage of another rank.
  [[nodiscard]] std::uint32_t next_weight(std::uint16_t stage) const noexcept;

 protected:
  // Bits of state_[local stage * microbatches + micro-batch].
  enum Bit : std::uint8_t {
    activation_arrived = 1,
    gradient_arrived = 2,
    forward_issued = 4,
    forward_completed = 8,
    input_issued = 16,
    input_completed = 32,
    weight_issued = 64,
    weight_completed = 128,
  };
  static constexpr std::uint16_t not_here = 0xffff;
  // Among the rank's stages; not_here for a stage of another rank.
  [[nodiscard]] std::uint16_t position(std::uint16_t stage) const noexcept {
    const auto offset = static_cast<std::size_t>(stage) - stages_.front();  // wraps below the first
    return offset < local_.size() ? local_[offset] : not_here;
  }
  [[nodiscard]] std::size_t index(std::uint16_t stage, std::uint32_t microbatch) const noexcept {
    return static_cast<std::size_t>(position(stage)) * microbatches_ + microbatch;
  }
  static std::uint8_t issued_bits(OpKind kind) noexcept;
  static std::uint8_t completed_bits(OpKind kind) noexcept;

  std::uint32_t rank_ = 0;
  std::uint32_t microbatches_ = 0;
  std::uint32_t stage_count_ = 0;
  std::vector<std::uint16_t> stages_;
  std::vector<std::uint16_t> local_;  // global stage - the first of the rank -> position in stages_
  std::vector<std::uint8_t> state_;
  std::vector<std::uint32_t> next_weight_;  // per local stage
  Phase phase_ = Phase::train;
  Nanoseconds now_ = 0;
  std::uint32_t in_flight_ = 0;
  std::uint32_t slots_ = 0;
};

/// The owner's side: what happened is marked here.
class RankState : public RankView {
 public:
  /// `stages`: the rank's stages, ascending; `slots`: pairs the rank may hold at once.
  RankState(std::uint32_t rank, std::uint32_t stage_count, std::vector<std::uint16_t> stages,
            std::uint32_t microbatches, std::uint32_t slots);

  /// Forgets the last step; keeps the memory.
  void begin_step(Phase phase) noexcept;
  void set_now(Nanoseconds now) noexcept { now_ = now; }
  void mark_arrived(OpKind needed_by, std::uint16_t stage,
                    std::uint32_t microbatch) noexcept;  ///< forward or backward_input
  void mark_issued(const Op& op) noexcept;
  /// The W of this pair is held: it counts as issued for policies until it runs.
  void mark_held(std::uint16_t stage, std::uint32_t microbatch) noexcept;
  /// Also frees the slot: after B or W in training, after F in evaluation.
  void mark_completed(const Op& op) noexcept;
};

}  // namespace weft
