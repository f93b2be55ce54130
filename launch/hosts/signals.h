#pragma once
// Signals as a descriptor to poll, and their names.
#include <signal.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "weft/base/files/descriptor.h"

namespace weft {

/// While it lives, its signals are blocked in this thread and come through `descriptor`, and SIGPIPE is
/// ignored. HUP stays ignored where it was (nohup).
class SignalQueue {
 public:
  /// Throws Error.
  explicit SignalQueue(std::initializer_list<int> numbers);
  ~SignalQueue();
  SignalQueue(const SignalQueue&) = delete;
  SignalQueue& operator=(const SignalQueue&) = delete;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  /// The number of the next signal, if one has come.
  [[nodiscard]] std::optional<int> next() const;

 private:
  Descriptor descriptor_;
  sigset_t before_{};
  struct sigaction pipe_before_ {};
};

/// `signal 9 (SIGKILL)`.
[[nodiscard]] std::string signal_name(int number);

}  // namespace weft
