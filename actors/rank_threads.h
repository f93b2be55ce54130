#pragma once
// All ranks of a pipeline as threads of this process (`inproc`).
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "weft/actors/event_loop.h"
#include "weft/actors/loop_watch.h"
#include "weft/transport/transport.h"

namespace weft {

/// Runs one function per rank, each on its own thread with its own transport. The first exception ends all of
/// them.
class RankThreads {
 public:
  explicit RankThreads(std::uint32_t ranks);
  ~RankThreads();

  /// Calls `body(rank, transport)` on every rank's thread; returns when all have ended, rethrows the first
  /// exception.
  void run(const std::function<void(std::uint32_t rank, Transport& transport)>& body);

  /// Ties a rank's loop to the group: a failure elsewhere makes its next turn throw PeerFailure. Called on
  /// the rank's thread.
  LoopWatch watch(std::uint32_t rank, EventLoop& loop);
  /// Ends all ranks with the cause `error`; the first call counts. Any thread.
  void fail(std::uint32_t rank, std::exception_ptr error);
  [[nodiscard]] bool failed() const;

 private:
  std::vector<std::unique_ptr<Transport>> transports_;
  mutable std::mutex mutex_;
  std::vector<EventLoop*> loops_;
  std::exception_ptr error_;
  std::uint32_t failed_rank_ = 0;
  std::string what_;
};

}  // namespace weft
