#include "weft/actors/event_loop.h"

#include <poll.h>

#include <algorithm>

namespace weft {
namespace {

// Blocking is bounded because wake-ups of UCX were seen to get lost in the field.
constexpr Nanoseconds longest_block = 10'000'000;

void relax() noexcept { __builtin_ia32_pause(); }

}  // namespace

bool EventLoop::turn() {
  bool busy = false;
  throw_failure();
  while (!ready_.empty()) {
    ready_.run_one();
    throw_failure();
    busy = true;
  }
  if (tick_) tick_(tick_owner_);
  if (transport_.progress()) busy = true;
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
