#pragma once
// A policy is the object that a rank asks for its next op.
#include <cstdint>

#include "base/clock.h"
#include "scheduling/op.h"
#include "scheduling/rank_view.h"

namespace weft {

/// What the rank shall do next: run an op, wait for a message, or wait for a message until a time.
class Decision {
 public:
  static Decision run(const Op& op) noexcept { return Decision(Kind::run, op, 0); }
  static Decision wait() noexcept { return Decision(Kind::wait, Op{}, never); }
  static Decision wait_until(Nanoseconds time) noexcept { return Decision(Kind::wait, Op{}, time); }

  /// The op to run, or null when the rank shall wait.
  [[nodiscard]] const Op* op() const noexcept { return kind_ == Kind::run ? &op_ : nullptr; }
  /// The time of the loop's clock at which to ask again, `never` when only a message can change anything.
  [[nodiscard]] Nanoseconds deadline() const noexcept { return deadline_; }

  static constexpr Nanoseconds never = INT64_MAX;

 private:
  enum class Kind : std::uint8_t { run, wait };
  Decision(Kind kind, const Op& op, Nanoseconds deadline) noexcept : op_(op), deadline_(deadline), kind_(kind) {}
  Op op_;
  Nanoseconds deadline_;
  Kind kind_;
};

/// Chooses the next op of one rank. One object per rank; called from that rank's thread only.
class Policy {
 public:
  virtual ~Policy() = default;
  /// A new step begins; nothing of it has arrived or run yet as far as the policy is concerned.
  virtual void begin_step(std::uint64_t step, Phase phase) = 0;
  /// The next op, whose inputs must be ready, or a wait. A fused pair is returned one half after the other. Depends
  /// on `view` and the policy's own history only, so that the simulator can drive the same object.
  virtual Decision choose(const RankView& view) = 0;
};

}  // namespace weft
