#include "weft/actors/rank_threads.h"

#include <thread>

#include "weft/base/error.h"
#include "weft/transport/inproc/inproc_transport.h"

namespace weft {

RankThreads::RankThreads(std::uint32_t ranks) : transports_(make_inproc_transports(ranks)), loops_(ranks) {}
RankThreads::~RankThreads() = default;

void RankThreads::run(const std::function<void(std::uint32_t, Transport&)>& body) {
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < transports_.size(); ++rank)
    threads.emplace_back([this, rank, &body] {
      try {
        body(rank, *transports_[rank]);
      } catch (...) {
        fail(rank, std::current_exception());
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (error_) std::rethrow_exception(error_);
}

LoopWatch RankThreads::watch(std::uint32_t rank, EventLoop& loop) {
  loop.on_interrupt([this, rank] {
    const std::scoped_lock lock(mutex_);
    if (error_ && failed_rank_ != rank) throw PeerFailure(failed_rank_, what_);
  });
  const std::scoped_lock lock(mutex_);
  loops_[rank] = &loop;
  if (error_) loop.interrupt();
  return LoopWatch([this, rank, &loop] {
    const std::scoped_lock undo_lock(mutex_);
    loops_[rank] = nullptr;
    loop.on_interrupt({});
  });
}

void RankThreads::fail(std::uint32_t rank, std::exception_ptr error) {
  const std::scoped_lock lock(mutex_);
  if (error_) return;
  error_ = std::move(error);
  failed_rank_ = rank;
  try {
    std::rethrow_exception(error_);
  } catch (const std::exception& e) {
    what_ = "rank " + std::to_string(rank) + " failed: " + e.what();
  } catch (...) {
    what_ = "rank " + std::to_string(rank) + " failed";
  }
  for (EventLoop* loop : loops_)
    if (loop != nullptr) loop->interrupt();
}

bool RankThreads::failed() const {
  const std::scoped_lock lock(mutex_);
  return error_ != nullptr;
}

}  // namespace weft
