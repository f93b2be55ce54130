#pragma once
// The launcher's signals as a descriptor to poll.
#include <signal.h>

#include <optional>

namespace weft {

/// While it lives, the signals a launcher must act on (CHLD, INT, TERM, HUP, USR1, USR2, TSTP, CONT) are
/// blocked in this thread and come through `descriptor`, and SIGPIPE is ignored. HUP stays ignored where it
/// was (nohup).
class SignalQueue {
 public:
  /// Throws Error.
  SignalQueue();
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// The number of the next signal, if one has come.
  [[nodiscard]] std::optional<int> next() const;

 private:
  int descriptor_ = -1;
  sigset_t before_{};
  struct sigaction pipe_before_ {};
};

}  // namespace weft
