#pragma once
// A point in the work of a queue.
#include <cstdint>

namespace weft {

class Queue;

/// A point that the work of one queue reaches. A value; the queue outlives it.
class Event {
 public:
  /// A point that is past.
  Event() = default;
  /// Whether all work before the point is done. Never waits. Throws DeviceError when that work failed.
  [[nodiscard]] bool done() const;
  /// Returns once it is done; for work outside of steps. Throws DeviceError.
  void wait() const;

 private:
  friend class Queue;
  Event(const Queue& queue, std::uint64_t point) noexcept : queue_(&queue), point_(point) {}
  const Queue* queue_ = nullptr;
  std::uint64_t point_ = 0;
};

}  // namespace weft
