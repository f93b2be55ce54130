#include "weft/actors/completion.h"

#include "weft/actors/event_loop.h"
#include "weft/actors/loop_waker.h"
#include "weft/base/error.h"

namespace weft {

Completion::Completion(EventLoop& loop) : state_(std::make_shared<State>(loop.waker())) {}

void Completion::finish(std::exception_ptr error) const noexcept {
  Progress open = Progress::open;
  if (!state_->progress.compare_exchange_strong(open, Progress::completing)) return;
  state_->error = std::move(error);
  state_->progress.store(Progress::completed, std::memory_order_release);
  state_->waker->wake();
}

void Completion::Awaiter::wait(std::coroutine_handle<> caller, const ReadyQueue* queue, OpWatch* watch) {
  if (!state_->waker->owns(queue)) throw Error("a completion is awaited by another rank than made it");
  caller_ = caller;
  watch_ = watch;
  state_->waker->loop().list(*this);
  listed_ = true;
  if (watch_ != nullptr) watch_->waits();
}

void Completion::Awaiter::await_resume() {
  if (caller_ && watch_ != nullptr) watch_->goes_on();
  if (state_->error) std::rethrow_exception(state_->error);
}

// The op ends unfinished.
Completion::Awaiter::~Awaiter() {
  if (listed_) state_->waker->loop().unlist(*this);
}

}  // namespace weft
