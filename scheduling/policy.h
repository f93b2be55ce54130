#pragma once
// A policy is the object that a rank asks for its next op.
#include <cstdint>

#include "weft/base/clock.h"
#include "weft/scheduling/op.h"
#include "weft/scheduling/rank_view.h"

namespace weft {

/// What the rank shall do next: run an op, wait for a message, or wait for a message until a time.
class Decision {
 public:
  static Decision run(const Op& op) noexcept { return Decision(Kind::run, op, 0); }
  /// Runs an I in place of a B out of turn, whose W is held.
  static Decision run_holding_weight(const Op& input) noexcept {
    return Decision(Kind::run_holding_weight, input, 0);
  }
  /// Runs a W that was held since the time `since`.
  static Decision run_held(const Op& weight, Nanoseconds since) noexcept {
    return Decision(Kind::run_held, weight, since);
  }
  static Decision wait() noexcept { return Decision(Kind::wait, Op{}, never); }
  static Decision wait_until(Nanoseconds time) noexcept { return Decision(Kind::wait, Op{}, time); }

  /// The op to run, or null when the rank shall wait.
  [[nodiscard]] const Op* op() const noexcept { return kind_ == Kind::wait ? nullptr : &op_; }
  /// For a wait: the time of the loop's clock at which to ask again, `never` when only a message can change
  /// anything.
  [[nodiscard]] Nanoseconds deadline() const noexcept { return time_; }
  /// True when the op is an I whose W is held until its turn: the caller also marks that
  /// (RankState::mark_held).
  [[nodiscard]] bool holds_weight() const noexcept { return kind_ == Kind::run_holding_weight; }
  /// True when the op is a W that was held; it was so from `held_since()`.
  [[nodiscard]] bool was_held() const noexcept { return kind_ == Kind::run_held; }
  [[nodiscard]] Nanoseconds held_since() const noexcept { return time_; }

  static constexpr Nanoseconds never = INT64_MAX;

 private:
  enum class Kind : std::uint8_t { run, run_holding_weight, run_held, wait };
  Decision(Kind kind, const Op& op, Nanoseconds time) noexcept : op_(op), time_(time), kind_(kind) {}
  Op op_;
  Nanoseconds time_;
  Kind kind_;
};

/// Chooses the next op of one rank. One object per rank; called from that rank's thread only.
class Policy {
 public:
  virtual ~Policy() = default;
  /// A new step begins; nothing of it has arrived or run yet as far as the policy is concerned.
  virtual void begin_step(std::uint64_t step, Phase phase) = 0;
  /// The next op, or a wait. An op that breaks a rule (RankView::broken_rule: its inputs are not there, it
  /// was issued before, no slot is free, it is no F in an evaluation, ...) ends the run with ScheduleError. A
  /// fused pair is returned one half after the other. Depends on `view` and the policy's own history only, so
  /// that the simulator can drive the same object.
  virtual Decision choose(const RankView& view) = 0;
};

}  // namespace weft
