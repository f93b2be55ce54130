#include "weft/model/ops/cpu/thread_team.h"

#include <fmt/format.h>
#include <xmmintrin.h>

#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "weft/base/clock.h"
#include "weft/base/error.h"

namespace weft::cpu {
namespace {

constexpr Nanoseconds poll_interval = 100'000;
constexpr Nanoseconds spin_time = 30'000;
constexpr unsigned spins_per_clock = 64;  // pauses between two looks at the clock
constexpr std::uint64_t most_blocks = 0xffff'ffff;

/// The team whose block the current thread runs as a helper.
thread_local const void* helper_of = nullptr;

}  // namespace

void set_float_control() noexcept {
  constexpr unsigned exceptions_masked = 0x1f80;
  constexpr unsigned flush_to_zero = 0x8000;
  constexpr unsigned denormals_are_zero = 0x0040;
  constexpr unsigned wanted = exceptions_masked | flush_to_zero | denormals_are_zero;
  constexpr unsigned flags = 0x003f;  // what past operations raised
  if ((_mm_getcsr() & ~flags) != wanted) _mm_setcsr(wanted);
}

/// `ticket` holds the number of the loop (upper half) and how many of its blocks nobody has taken yet (lower
/// half). A thread takes a block by a compare-and-swap on both, so one that comes late can never take a block
/// of a loop it knows nothing about.
struct ThreadTeam::Shared {
  alignas(64) std::atomic<std::uint64_t> ticket{0};
  std::atomic<Body> body{nullptr};
  std::atomic<void*> argument{nullptr};
  std::atomic<bool> failed{false};
  alignas(64) std::atomic<std::uint64_t> done{0};
  alignas(64) std::atomic<std::uint32_t> wake{0};  // changes with every loop and at the end
  std::atomic<int> sleepers{0};
  std::atomic<bool> stop{false};
  std::mutex failure_mutex;
  std::exception_ptr failure;
  std::vector<std::thread> helpers;

  /// Takes and runs one block; false when none is left.
  bool run_one() {
    std::uint64_t seen = ticket.load(std::memory_order_acquire);
    do {
      if ((seen & most_blocks) == 0) return false;
    } while (
        !ticket.compare_exchange_weak(seen, seen - 1, std::memory_order_acq_rel, std::memory_order_acquire));
    const std::uint64_t block = (seen & most_blocks) - 1;
    // The loop cannot end before this block is counted, so body and argument are those of this loop.
    if (!failed.load(std::memory_order_relaxed)) {
      try {
        body.load(std::memory_order_relaxed)(argument.load(std::memory_order_relaxed), block);
      } catch (...) {
        const std::lock_guard lock(failure_mutex);
        if (!failure) failure = std::current_exception();
        failed.store(true, std::memory_order_relaxed);
      }
    }
    done.fetch_add(1, std::memory_order_acq_rel);
    return true;
  }

  void help() {
    helper_of = this;
    set_float_control();
    while (!stop.load(std::memory_order_acquire)) {
      const std::uint32_t seen = wake.load(std::memory_order_acquire);
      while (run_one()) {
      }
      wait_for_change(seen);
    }
  }

  void wait_for_change(std::uint32_t seen) {
    const Nanoseconds until = now_ns() + spin_time;
    do {
      for (unsigned i = 0; i < spins_per_clock; ++i) {
        if (wake.load(std::memory_order_acquire) != seen) return;
        _mm_pause();
      }
    } while (now_ns() < until);
    sleepers.fetch_add(1);
    wake.wait(seen);  // returns at once when it has changed already
    sleepers.fetch_sub(1);
  }

  void wake_helpers() {
    wake.fetch_add(1);
    if (sleepers.load() > 0) wake.notify_all();
  }

  void join() {
    stop.store(true, std::memory_order_release);
    wake.fetch_add(1);
    wake.notify_all();
    for (std::thread& helper : helpers) helper.join();
  }
};

ThreadTeam::ThreadTeam(int threads) : threads_(threads), shared_(std::make_unique<Shared>()) {
  if (threads < 1) throw Error(fmt::format("threads: {} given, at least 1 is needed", threads));
  set_float_control();
  shared_->helpers.reserve(static_cast<std::size_t>(threads) - 1);
  try {
    for (int i = 1; i < threads; ++i)
      shared_->helpers.emplace_back([shared = shared_.get()] { shared->help(); });
  } catch (const std::system_error& error) {
    shared_->join();
    throw Error(fmt::format("threads: only {} of {} compute threads could be started: {}",
                            shared_->helpers.size() + 1, threads, error.what()));
  }
}

ThreadTeam::~ThreadTeam() { shared_->join(); }

void ThreadTeam::run(std::size_t blocks, Body body, void* argument) {
  if (blocks == 0) return;
  if (helper_of == shared_.get() || running_) {
    for (std::size_t block = 0; block < blocks; ++block) body(argument, block);
    return;
  }
  if (blocks > most_blocks) throw Error(fmt::format("a loop of {} blocks is too long", blocks));
  set_float_control();
  Shared& shared = *shared_;
  shared.failed.store(false, std::memory_order_relaxed);
  shared.done.store(0, std::memory_order_relaxed);
  shared.body.store(body, std::memory_order_relaxed);
  shared.argument.store(argument, std::memory_order_relaxed);
  const std::uint64_t loop = (shared.ticket.load(std::memory_order_relaxed) >> 32) + 1;
  shared.ticket.store((loop << 32) | blocks, std::memory_order_release);
  if (threads_ > 1 && blocks > 1) shared.wake_helpers();

  running_ = true;
  while (shared.run_one()) poll();
  for (unsigned spins = 0; shared.done.load(std::memory_order_acquire) < blocks; ++spins) {
    if (spins % spins_per_clock != 0) {
      _mm_pause();
    } else {
      poll();
      if (spins > 16 * spins_per_clock) std::this_thread::yield();  // the helper may need this core
    }
  }
  running_ = false;
  if (shared.failed.load(std::memory_order_relaxed)) {
    std::exception_ptr failure;
    std::swap(failure, shared.failure);
    std::rethrow_exception(failure);
  }
}

void ThreadTeam::poll() noexcept {
  if (poll_.function == nullptr || helper_of == shared_.get()) return;
  const Nanoseconds now = now_ns();
  if (now - last_poll_ < poll_interval) return;
  last_poll_ = now;
  poll_.function(poll_.argument);
}

}  // namespace weft::cpu
