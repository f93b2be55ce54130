#pragma once
// Task: the coroutine type of actors and stages.
//
// A task starts when it is awaited and hands control back through the ready queue of its event loop. There is
// no symmetric transfer: g++ 12 overflows the stack with it when it does not optimise and under sanitizers.
// Two rules follow from g++ 12 as well: parameters by value, and no aggregate temporary or capturing lambda
// inside an expression with co_await.
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <utility>

#include "weft/actors/ready_queue.h"

namespace weft {

template <class T>
class Task;

/// Hears when the coroutines of one op wait for something of the stage's own, and when they go on.
class OpWatch {
 public:
  virtual void waits() noexcept = 0;
  virtual void goes_on() noexcept = 0;

 protected:
  ~OpWatch() = default;
};

namespace detail {

/// Frames come from per-thread free lists, so that the steady state allocates nothing.
void* allocate_frame(std::size_t bytes);
void free_frame(void* frame, std::size_t bytes) noexcept;

class PromiseBase {
 public:
  static void* operator new(std::size_t bytes) { return allocate_frame(bytes); }
  static void operator delete(void* frame, std::size_t bytes) noexcept { free_frame(frame, bytes); }

  std::suspend_always initial_suspend() noexcept { return {}; }
  struct FinalAwaiter {
    bool await_ready() noexcept { return false; }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> done) noexcept {
      if (done.promise().continuation_) done.promise().queue_->push(done.promise().continuation_);
    }
    void await_resume() noexcept {}
  };
  FinalAwaiter final_suspend() noexcept { return {}; }
  void unhandled_exception() noexcept { error_ = std::current_exception(); }

  std::coroutine_handle<> continuation_;
  ReadyQueue* queue_ = nullptr;
  OpWatch* watch_ = nullptr;  // of the op that this is a part of
  std::exception_ptr error_;
};

template <class T>
class Promise : public PromiseBase {
 public:
  Task<T> get_return_object() noexcept;
  void return_value(T value) { value_.emplace(std::move(value)); }
  T take() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return std::move(*value_);
  }

 private:
  std::optional<T> value_;
};

template <>
class Promise<void> : public PromiseBase {
 public:
  Task<void> get_return_object() noexcept;
  void return_void() noexcept {}
  void take() {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }
};

}  // namespace detail

/// A coroutine that yields one T, or an exception, to the one who awaits it. Destroying it destroys the
/// frame.
template <class T = void>
class [[nodiscard]] Task {
 public:
  using promise_type = detail::Promise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Task() = default;
  explicit Task(Handle handle) noexcept : handle_(handle) {}
  Task(Task&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      if (handle_) handle_.destroy();
      handle_ = std::exchange(other.handle_, nullptr);
    }
    return *this;
  }
  ~Task() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  template <class Promise>
  void await_suspend(std::coroutine_handle<Promise> caller) noexcept {
    handle_.promise().continuation_ = caller;
    handle_.promise().queue_ = caller.promise().queue_;
    handle_.promise().watch_ = caller.promise().watch_;
    handle_.promise().queue_->push(handle_);
  }
  T await_resume() { return handle_.promise().take(); }

  /// For the event loop: starts a task that nobody awaits.
  void start(ReadyQueue& queue, OpWatch* watch = nullptr) {
    handle_.promise().queue_ = &queue;
    handle_.promise().watch_ = watch;
    queue.push(handle_);
  }
  [[nodiscard]] bool done() const noexcept { return handle_.done(); }
  /// True for a task that ended with an exception.
  [[nodiscard]] bool failed() const noexcept { return handle_.promise().error_ != nullptr; }
  /// The result of a task that is done; rethrows its exception.
  T result() { return handle_.promise().take(); }

 private:
  Handle handle_;
};

namespace detail {
template <class T>
Task<T> Promise<T>::get_return_object() noexcept {
  return Task<T>(std::coroutine_handle<Promise<T>>::from_promise(*this));
}
inline Task<void> Promise<void>::get_return_object() noexcept {
  return Task<void>(std::coroutine_handle<Promise<void>>::from_promise(*this));
}
}  // namespace detail

}  // namespace weft
