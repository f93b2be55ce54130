#pragma once
// The threads of one rank that run blocks of the current op.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include "weft/model/ops/poll.h"

namespace weft::cpu {

/// Sets the floating-point control word (MXCSR) of the calling thread to the one every computing thread of
/// weft uses: round to nearest, exceptions masked, denormals flushed to zero and read as zero (they would be
/// slow, and AMX tiles always do so). ThreadTeam does this for its helpers and for each caller of
/// `parallel_for`; a thread that computes outside of it calls this once.
void set_float_control() noexcept;

/// 1..n threads; the thread that calls `parallel_for` is one of them.
/// One thread at a time may use a team. After construction nothing is allocated. Helpers spin for some
/// microseconds after a loop and then sleep.
class ThreadTeam {
 public:
  /// Starts `threads` - 1 helpers. Throws Error when threads < 1 or a thread cannot be started.
  explicit ThreadTeam(int threads);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  [[nodiscard]] int threads() const noexcept { return threads_; }

  /// `poll` is run by the thread that calls `parallel_for`, between its blocks, every 100 us or so. It must
  /// not throw.
  void set_poll(Poll poll) noexcept { poll_ = poll; }

  /// Runs function(0) .. function(blocks - 1), each once, on any thread and in any order, and returns when
  /// all are done. The first exception is thrown again here; blocks not yet begun are then left out. A call
  /// from inside a block runs its blocks on that thread alone.
  template <class Function>
  void parallel_for(std::size_t blocks, Function&& function) {
    using Callable = std::remove_reference_t<Function>;
    run(
        blocks, [](void* body, std::size_t block) { (*static_cast<Callable*>(body))(block); },
        const_cast<void*>(static_cast<const void*>(std::addressof(function))));
  }

  /// For blocks longer than 100 us: runs the poll if it is due and this is the thread that called
  /// `parallel_for`.
  void poll() noexcept;

 private:
  using Body = void (*)(void*, std::size_t);
  void run(std::size_t blocks, Body body, void* argument);

  struct Shared;
  int threads_;
  Poll poll_;
  std::int64_t last_poll_ = 0;
  bool running_ = false;  // the owner is inside parallel_for
  std::unique_ptr<Shared> shared_;
};

}  // namespace weft::cpu
