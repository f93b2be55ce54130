#pragma once
// The loop of one rank: runs ready coroutines, progresses the transport, and sleeps when there is nothing to
// do.
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <vector>

#include "weft/actors/completion.h"
#include "weft/actors/ready_queue.h"
#include "weft/actors/task.h"
#include "weft/base/clock.h"
#include "weft/transport/transport.h"

namespace weft {

/// One thread, one loop, one transport. A single coroutine chain waits for messages at a time, the rank's
/// actor; any number of ops may wait for completions of their own. After the first exception the loop is
/// dead: nothing is resumed any more, and every call throws Error with that cause.
class EventLoop {
 public:
  /// `spin`: how long to look for work before blocking; 0 when ranks outnumber cores.
  explicit EventLoop(Transport& transport, Nanoseconds spin = 20'000);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs `task` to its end and returns its result. Rethrows its exception, those of the transport, and what
  /// `interrupt` asked for.
  template <class T>
  T run(Task<T> task) {
    require_alive();
    try {
      task.start(ready_);
      while (!task.done())
        if (!turn()) idle();
      return task.result();
    } catch (...) {
      end(std::current_exception());
      throw;
    }
  }

  /// Hand-stepped use, for tests: starts nothing itself, does what can be done now. True when anything
  /// happened.
  bool turn();
  [[nodiscard]] ReadyQueue& ready() noexcept { return ready_; }
  /// Kills the loop for `error`; the first call counts.
  void end(const std::exception_ptr& error) noexcept;
  /// Throws Error with the first cause when the loop is dead.
  void require_alive() const;

  /// The monotonic clock, or the one set for tests.
  [[nodiscard]] Nanoseconds now() const { return clock_ ? clock_() : now_ns(); }
  void set_clock(std::function<Nanoseconds()> clock) { clock_ = std::move(clock); }

  /// Resumes `waiting` at `deadline` unless wake() comes first; Decision::never means no deadline.
  void wait(std::coroutine_handle<> waiting, Nanoseconds deadline) noexcept {
    waiting_ = waiting;
    deadline_ = deadline;
  }
  /// The same as an expression to await: returns at the next wake() or at `deadline`.
  struct Change {
    explicit Change(EventLoop& event_loop, Nanoseconds until) noexcept : loop(event_loop), deadline(until) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) noexcept { loop.wait(waiting, deadline); }
    void await_resume() const noexcept {}
    EventLoop& loop;
    Nanoseconds deadline;
  };
  [[nodiscard]] Change next(Nanoseconds deadline) noexcept { return Change(*this, deadline); }
  /// Something changed: the waiting coroutine goes on in the next turn.
  void wake() {
    if (waiting_) ready_.push(std::exchange(waiting_, nullptr));
  }

  /// From any thread: the next turn throws what `on_interrupt` throws.
  void interrupt() noexcept {
    interrupted_.store(true, std::memory_order_release);
    transport_.wake();
  }
  /// Called on the rank's thread after an interrupt; throws when the rank shall end.
  void on_interrupt(std::function<void()> handler) { handler_ = std::move(handler); }
  /// Called in every turn and every poll from inside ops, for heartbeats; cheap and noexcept.
  void on_tick(void (*tick)(void*), void* owner) noexcept {
    tick_ = tick;
    tick_owner_ = owner;
  }

  /// What completions keep of this loop.
  [[nodiscard]] const std::shared_ptr<detail::LoopWaker>& waker() const noexcept { return waker_; }
  /// An op waits for its completion from now on.
  void list(Completion::Awaiter& awaiter) { awaiters_.push_back(&awaiter); }
  void unlist(Completion::Awaiter& awaiter) noexcept { std::erase(awaiters_, &awaiter); }

  /// For long ops: progresses transfers without resuming anybody. Never throws, since ops call it from
  /// anywhere: the turn that runs the op throws instead.
  void poll() noexcept {
    if (tick_) tick_(tick_owner_);
    if (failure_) return;
    try {
      transport_.progress();
    } catch (...) {
      fail(std::current_exception());
    }
  }
  /// On the rank's thread, where nothing may be thrown: the current or next turn throws `error`. The first
  /// call counts.
  void fail(std::exception_ptr error) noexcept {
    if (!failure_) failure_ = std::move(error);
  }

 private:
  bool work();
  void resume_completed();
  void idle();
  void throw_failure() {
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

  Transport& transport_;
  Nanoseconds spin_;
  Nanoseconds idle_since_ = 0;
  ReadyQueue ready_;
  std::function<Nanoseconds()> clock_;
  std::coroutine_handle<> waiting_;
  Nanoseconds deadline_ = 0;
  std::shared_ptr<detail::LoopWaker> waker_;
  std::vector<Completion::Awaiter*> awaiters_;
  std::exception_ptr cause_;  // why the loop is dead
  std::atomic<bool> interrupted_{false};
  std::function<void()> handler_;
  std::exception_ptr failure_;
  void (*tick_)(void*) = nullptr;
  void* tick_owner_ = nullptr;
};

}  // namespace weft
