#pragma once
// Something of a stage's own that an op waits for: a timer, a file, another thread.
#include <atomic>
#include <coroutine>
#include <exception>
#include <memory>

#include "weft/actors/task.h"

namespace weft {

class EventLoop;

namespace detail {
class LoopWaker;
}

/// Made by MicrobatchContext::completion() on the rank's thread, awaited there (`co_await completion;` inside
/// a Task of an op, of this or a later one), completed from anywhere. Copies are the same completion. One is
/// one allocation.
///
/// Whoever completes it may outlive the op, which ends unfinished when the pipeline fails: he writes to
/// memory of his own or of the stage (whose destructor may wait for him), not to slots or locals of the op.
class Completion {
 public:
  explicit Completion(EventLoop& loop);

  /// The op that waits goes on, on its rank's thread, at once, and sees all that this thread wrote before.
  /// Any thread, also after the pipeline has ended. The first call counts, later ones do nothing.
  void complete() const noexcept { finish(nullptr); }
  /// The same, but `co_await` throws `error`.
  void fail(std::exception_ptr error) const noexcept { finish(std::move(error)); }
  [[nodiscard]] bool completed() const noexcept {
    return state_->progress.load(std::memory_order_acquire) == Progress::completed;
  }

 private:
  enum class Progress : std::uint8_t { open, completing, completed };
  struct State {
    explicit State(std::shared_ptr<detail::LoopWaker> its_waker) noexcept : waker(std::move(its_waker)) {}
    std::shared_ptr<detail::LoopWaker> waker;
    std::atomic<Progress> progress{Progress::open};
    std::exception_ptr error;  // written before `completed`, read after
  };

 public:
  /// What `co_await` makes. Throws Error where the completion belongs to another rank.
  class Awaiter {
   public:
    explicit Awaiter(std::shared_ptr<State> state) noexcept : state_(std::move(state)) {}
    Awaiter(const Awaiter&) = delete;
    Awaiter& operator=(const Awaiter&) = delete;
    ~Awaiter();
    [[nodiscard]] bool await_ready() const noexcept { return completed(); }
    template <class Promise>
    void await_suspend(std::coroutine_handle<Promise> caller) {
      wait(caller, caller.promise().queue_, caller.promise().watch_);
    }
    void await_resume();

   private:
    friend class EventLoop;
    void wait(std::coroutine_handle<> caller, const ReadyQueue* queue, OpWatch* watch);
    [[nodiscard]] bool completed() const noexcept {
      return state_->progress.load(std::memory_order_acquire) == Progress::completed;
    }
    std::shared_ptr<State> state_;
    std::coroutine_handle<> caller_;
    OpWatch* watch_ = nullptr;
    bool listed_ = false;  // in the loop, which resumes the caller
  };
  [[nodiscard]] Awaiter operator co_await() const noexcept { return Awaiter(state_); }

 private:
  void finish(std::exception_ptr error) const noexcept;
  std::shared_ptr<State> state_;
};

}  // namespace weft
