#pragma once
// A launcher of one rank, which is this process: for what a rank tells before it ends.
#include <poll.h>

#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "weft/actors/optimizer.h"
#include "weft/base/error.h"
#include "weft/base/files/descriptor.h"
#include "weft/transport/rendezvous/rendezvous_server.h"

namespace weft::test {

/// While it lives, this process finds itself launched as rank 0 of 1.
class OneRankLauncher {
 public:
  OneRankLauncher() : server_(options(token_)), descriptor_(share_run_token(token_)) {
    setenv("WEFT_RANK", "0", 1);
    setenv("WEFT_WORLD_SIZE", "1", 1);
    setenv("WEFT_RENDEZVOUS", ("127.0.0.1:" + std::to_string(server_.port())).c_str(), 1);
    setenv("WEFT_TOKEN_FD", std::to_string(descriptor_.number()).c_str(), 1);
  }
  ~OneRankLauncher() {
    for (const char* name : {"WEFT_RANK", "WEFT_WORLD_SIZE", "WEFT_RENDEZVOUS", "WEFT_TOKEN_FD"})
      unsetenv(name);
  }
  OneRankLauncher(const OneRankLauncher&) = delete;
  OneRankLauncher& operator=(const OneRankLauncher&) = delete;

  /// The words of the rank's failure; empty when none come within 30 s.
  std::string hear_failure() {
    for (;;) {
      while (const auto event = server_.next_event())
        if (event->kind == RendezvousEvent::Kind::failed) return event->what;
      pollfd news{server_.event_descriptor(), POLLIN, 0};
      if (poll(&news, 1, 30'000) == 0) return {};
    }
  }

 private:
  static RendezvousOptions options(const RunToken& token) {
    RendezvousOptions one;
    one.token = token;
    return one;
  }

  RunToken token_ = make_run_token();
  RendezvousServer server_;
  Descriptor descriptor_;
};

/// Holds whoever comes until it is opened.
class Gate {
 public:
  void open() {
    const std::scoped_lock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

/// An optimizer that, once it has its memory, does not end before the gate is open, as a rank does whose
/// checkpoint goes to a slow disk. Its updates fail.
class SlowToEnd final : public Optimizer {
 public:
  SlowToEnd(std::unique_ptr<Optimizer> inner, Gate& gate) : inner_(std::move(inner)), gate_(gate) {}
  ~SlowToEnd() override {
    if (allocated_) gate_.pass();
  }
  std::size_t state_bytes(std::span<Parameter* const> parameters) const override {
    return inner_->state_bytes(parameters);
  }
  void allocate(std::span<Parameter* const> parameters, Arena& state, Queue& queue) override {
    inner_->allocate(parameters, state, queue);
    allocated_ = true;
  }
  void update(std::uint64_t, double) override { throw Error("no update today"); }
  double learning_rate(std::uint64_t step) const override { return inner_->learning_rate(step); }
  std::vector<OptimizerState> state() override { return inner_->state(); }

 private:
  std::unique_ptr<Optimizer> inner_;
  Gate& gate_;
  bool allocated_ = false;
};

/// What the launcher hears while `rank` runs as its only rank, which ends by an exception. The gate opens
/// when the launcher has been told, or has waited in vain.
inline std::string told_by(Gate& gate, const std::function<void()>& rank) {
  OneRankLauncher launcher;
  std::thread thread([&] {
    try {
      rank();
    } catch (const std::exception&) {
      // the launcher knows
    }
  });
  std::string words = launcher.hear_failure();
  gate.open();
  thread.join();
  return words;
}

}  // namespace weft::test
