#pragma once
// Coroutines that can go on, in the order in which they became ready. One thread.
#include <coroutine>
#include <cstddef>
#include <vector>

namespace weft {

class ReadyQueue {
 public:
  ReadyQueue() : ring_(64) {}
  void push(std::coroutine_handle<> handle) {
    if (count_ == ring_.size()) grow();
    ring_[(first_ + count_++) % ring_.size()] = handle;
  }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Forgets all; none of them is resumed.
  void clear() noexcept { count_ = 0; }
  /// Resumes the oldest; it may push others. The queue must not be empty.
  void run_one() {
    const std::coroutine_handle<> handle = ring_[first_];
    first_ = (first_ + 1) % ring_.size();
    --count_;
    handle.resume();
  }

 private:
  void grow() {
    std::vector<std::coroutine_handle<>> larger(ring_.size() * 2);
    for (std::size_t i = 0; i < count_; ++i) larger[i] = ring_[(first_ + i) % ring_.size()];
    ring_ = std::move(larger);
    first_ = 0;
  }
  std::vector<std::coroutine_handle<>> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace weft
