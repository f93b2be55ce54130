#pragma once
// Time: nanoseconds of the monotonic clock, as plain integers (the simulator uses the same type).
#include <chrono>
#include <cstdint>

namespace weft {

/// A point in time or a span, in nanoseconds.
using Nanoseconds = std::int64_t;

/// The monotonic clock in nanoseconds.
inline Nanoseconds now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace weft
