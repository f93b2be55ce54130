#pragma once
// What other threads may keep of an event loop: it outlives the loop, and then does nothing.
#include <atomic>
#include <mutex>

#include "weft/transport/transport.h"

namespace weft {

class EventLoop;
class ReadyQueue;

namespace detail {

class LoopWaker {
 public:
  LoopWaker(EventLoop& loop, const ReadyQueue& queue, Transport& transport) noexcept
      : loop_(loop), queue_(&queue), transport_(&transport) {}

  /// Any thread: the loop looks for completions in its next turn, which comes at once.
  void wake() noexcept {
    woken_.store(true, std::memory_order_release);
    const std::scoped_lock lock(mutex_);
    if (transport_ != nullptr) transport_->wake();
  }
  /// The loop's thread: whether wake() was called since the last question.
  [[nodiscard]] bool take() noexcept { return woken_.exchange(false, std::memory_order_acquire); }
  /// The loop ends.
  void detach() noexcept {
    const std::scoped_lock lock(mutex_);
    transport_ = nullptr;
  }

  /// True for coroutines of this loop, on whose thread they run.
  [[nodiscard]] bool owns(const ReadyQueue* queue) const noexcept { return queue == queue_; }
  /// For the loop's thread, while it lives.
  [[nodiscard]] EventLoop& loop() const noexcept { return loop_; }

 private:
  EventLoop& loop_;
  const ReadyQueue* queue_;
  std::mutex mutex_;  // guards transport_
  Transport* transport_;
  std::atomic<bool> woken_{false};
};

}  // namespace detail

}  // namespace weft
