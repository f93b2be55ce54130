#pragma once
// Runs a job: starts its ranks and stays until all have ended, the way they should or not.
#include "weft/launch/hosts/rank_host.h"
#include "weft/launch/job.h"

namespace weft {

/// Runs the job on this machine. Messages about its end go to stderr. No process of it is left when this
/// returns, nor when this process is killed. Throws Error when it cannot start.
[[nodiscard]] JobResult supervise(const Job& job);

/// Runs the job on a host.
[[nodiscard]] JobResult supervise(const Job& job, RankHost& host);

}  // namespace weft
