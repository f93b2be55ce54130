#pragma once
// The tie between an event loop and whatever ends it from outside.
#include <functional>
#include <utility>

namespace weft {

/// While it lives, a loop is watched; its destructor undoes that, so it must go before the loop.
class [[nodiscard]] LoopWatch {
 public:
  LoopWatch() = default;
  explicit LoopWatch(std::function<void()> undo) noexcept : undo_(std::move(undo)) {}
  LoopWatch(LoopWatch&& other) noexcept : undo_(std::exchange(other.undo_, nullptr)) {}
  LoopWatch& operator=(LoopWatch&& other) noexcept {
    std::swap(undo_, other.undo_);
    return *this;
  }
  ~LoopWatch() {
    if (undo_) undo_();
  }

 private:
  std::function<void()> undo_;
};

}  // namespace weft
