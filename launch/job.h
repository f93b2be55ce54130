#pragma once
// What the launcher is to do, and how it ended.
#include <chrono>
#include <cstdint>
#include <optional>

#include "weft/launch/hosts/rank_host.h"
#include "weft/transport/rendezvous/control_client.h"

namespace weft {

struct Job : RankProgram {
  bool must_join = false;  ///< a rank that ends without `done` has failed even if no rank has joined
  std::chrono::milliseconds heartbeat_limit{10'000};
  std::chrono::milliseconds join_limit{300'000};
  /// From a stop request to SIGKILL, besides twice the longest step and save that ranks have told of.
  std::chrono::milliseconds stop_limit{30'000};
};

/// How a job ended.
struct JobResult {
  std::optional<Failure> cause;  ///< the first cause of a failure
  int stop_signal = 0;           ///< the signal that told the launcher to stop, 0 = none

  /// 0 all ranks did their work; 1 one failed; 128 + n stopped by signal n.
  [[nodiscard]] int exit_status() const noexcept;
};

/// WEFT_HEARTBEAT_LIMIT, in seconds, or 10 s: how long a rank may be silent. Longer for work under a
/// debugger. Throws ConfigError when it is no number from 1 to 1 000 000.
[[nodiscard]] std::chrono::milliseconds heartbeat_limit();

}  // namespace weft
