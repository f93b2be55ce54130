#pragma once
// One event format for the plan, the simulator and the run, so that they can be laid over each other.
#include <cstdint>

#include "weft/base/clock.h"
#include "weft/scheduling/op.h"

namespace weft {

enum class TraceKind : std::uint8_t {
  executed,  ///< an op; start: issued, end: completed
  held,  ///< a W that had to wait for its turn; start: its I (or the W's own place) issued, end: the W issued
  waiting,     ///< the rank idle; `op` is the one it was waiting for, that is the next one issued
  arrived,     ///< the message that `op` needs reached the rank from another one; start = end
  update,      ///< the optimizer's update, from when the norm is known; `op` has no meaning
  input_done,  ///< inside a B: its I part ended, the gradient leaves; start = end
};

/// Something that happened on a rank. Times are nanoseconds of one clock (monotonic, or the simulator's).
struct TraceEvent {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  Op op;
  std::uint32_t rank = 0;
  std::uint32_t step = 0;  ///< the first is 1
  TraceKind kind = TraceKind::executed;
  Phase phase = Phase::train;

  friend bool operator==(const TraceEvent&, const TraceEvent&) = default;
};

}  // namespace weft
