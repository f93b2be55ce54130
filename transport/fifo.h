#pragma once
// A queue that allocates only when it grows beyond everything it has held before.
#include <cassert>
#include <cstddef>
#include <utility>
#include <vector>

namespace weft {

/// First in, first out, in a circular buffer. T is default-constructible. One thread.
template <class T>
class Fifo {
 public:
  /// `capacity`: how many values it holds without an allocation; a power of two.
  explicit Fifo(std::size_t capacity = 64) : ring_(capacity) {}

  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] T& front() noexcept {
    assert(count_ != 0);
    return ring_[first_];
  }
  void push(T value) {
    if (count_ == ring_.size()) grow();
    ring_[(first_ + count_++) & (ring_.size() - 1)] = std::move(value);
  }
  /// Removes and returns the oldest.
  T pop() {
    assert(count_ != 0);
    T value = std::move(ring_[first_]);
    first_ = (first_ + 1) & (ring_.size() - 1);
    --count_;
    return value;
  }

 private:
  void grow() {
    std::vector<T> larger(ring_.size() * 2);
    for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(ring_[(first_ + i) & (ring_.size() - 1)]);
    ring_ = std::move(larger);
    first_ = 0;
  }

  std::vector<T> ring_;
  std::size_t first_ = 0;
  std::size_t count_ = 0;
};

}  // namespace weft
