#pragma once
// Starts one process per rank on this host and stays until all have ended, the way they should or not.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/transport/rendezvous/control_client.h"

namespace weft {

/// How ranks learn that they shall stop. SIGUSR1 is passed on either way.
enum class StopBy {
  message,  ///< over the control connection: they end after a step; for `weft train`. Ranks are started with
            ///< INT, TERM, HUP, USR1 and USR2 ignored
  signal,   ///< the launcher's signal is passed on, and USR2 too; for programs of any kind
};

struct Job {
  std::string program;                 ///< path of the program every rank runs
  std::vector<std::string> arguments;  ///< the first is the program's name
  std::uint32_t ranks = 1;
  std::vector<std::pair<std::string, std::string>>
      environment;  ///< added to this process's own, see rank_variables
  StopBy stop_by = StopBy::signal;
  bool must_join = false;  ///< a rank that ends without `done` has failed even if no rank has joined
  std::optional<std::uint32_t> speaker;  ///< this rank writes to the launcher's own stdout and stderr; the
                                         ///< others' output then goes to stderr
  std::chrono::milliseconds heartbeat_limit{10'000};
  std::chrono::milliseconds join_limit{300'000};
  std::chrono::milliseconds stop_limit{30'000};  ///< from a stop request to SIGKILL
};

/// How a job ended.
struct JobResult {
  std::optional<Failure> cause;  ///< the first cause of a failure
  int stop_signal = 0;           ///< the signal that told the launcher to stop, 0 = none

  /// 0 all ranks did their work; 1 one failed; 128 + n stopped by signal n.
  [[nodiscard]] int exit_status() const noexcept;
};

/// Runs the job. Messages about its end go to stderr. No process of it is left when this returns, nor when
/// this process is killed. Throws Error when it cannot start.
[[nodiscard]] JobResult supervise(const Job& job);

}  // namespace weft
