#include "weft/actors/event_loop.h"

#include <poll.h>

#include <algorithm>
#include <string>

#include "weft/actors/loop_waker.h"
#include "weft/base/error.h"

namespace weft {
namespace {

// Blocking is bounded because wake-ups of UCX were seen to get lost in the field.
constexpr Nanoseconds longest_block = 10'000'000;

void relax() noexcept { __builtin_ia32_pause(); }

}  // namespace

EventLoop::EventLoop(Transport& transport, Nanoseconds spin)
    : transport_(transport),
      spin_(spin),
      waker_(std::make_shared<detail::LoopWaker>(*this, ready_, transport)) {}

EventLoop::~EventLoop() { waker_->detach(); }

void EventLoop::end(const std::exception_ptr& error) noexcept {
  if (!cause_) cause_ = error;
  ready_.clear();  // their frames may be gone by the next turn
  waiting_ = nullptr;
}

void EventLoop::require_alive() const {
  if (!cause_) return;
  std::string cause = "an unknown exception";
  try {
    std::rethrow_exception(cause_);
  } catch (const std::exception& e) {
    cause = e.what();
  } catch (...) {
  }
  throw Error("this rank has failed before: " + cause);
}

bool EventLoop::turn() {
  require_alive();
  try {
    return work();
  } catch (...) {
    end(std::current_exception());
    throw;
  }
}

void EventLoop::resume_completed() {
  const auto done = [this](Completion::Awaiter* awaiter) {
    if (!awaiter->completed()) return false;
    awaiter->listed_ = false;
    ready_.push(awaiter->caller_);
    return true;
  };
  std::erase_if(awaiters_, done);
}

bool EventLoop::work() {
  bool busy = false;
  throw_failure();
  while (!ready_.empty()) {
    ready_.run_one();
    throw_failure();
    busy = true;
  }
  if (tick_) tick_(tick_owner_);
  if (transport_.progress()) busy = true;
  if (waker_->take()) resume_completed();
  if (interrupted_.exchange(false, std::memory_order_acquire) && handler_) handler_();
  if (waiting_ && deadline_ != INT64_MAX && now() >= deadline_) wake();
  busy |= !ready_.empty();
  if (busy) idle_since_ = 0;
  return busy;
}

void EventLoop::idle() {
  const Nanoseconds time = now_ns();
  if (idle_since_ == 0) idle_since_ = time;
  if (time - idle_since_ < spin_) {
    relax();
    return;
  }
  if (transport_.descriptor() < 0 || !transport_.arm()) return;
  Nanoseconds block = longest_block;
  if (waiting_ && deadline_ != INT64_MAX)
    block = std::clamp<Nanoseconds>(deadline_ - now(), 0, longest_block);
  pollfd descriptor{transport_.descriptor(), POLLIN, 0};
  const timespec timeout{0, static_cast<long>(block)};
  ppoll(&descriptor, 1, &timeout, nullptr);
}

}  // namespace weft
