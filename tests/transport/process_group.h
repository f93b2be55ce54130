#pragma once
// Real processes for tests: forked from a test that has not touched UCX, watched so that nothing hangs.
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "weft/transport/ucx/ucx_transport.h"

namespace weft::test {

/// How one process ended.
struct Ending {
  std::string error;  ///< what its body threw, or "hung", or how it died; empty when all is well
  int signal = 0;     ///< that ended it
};

/// Runs `body(rank, exchange)` in `ranks` new processes and waits for all of them; those that do not end
/// within `limit` are killed. `exchange` throws when another process ends before it takes part.
std::vector<Ending> run_processes(std::uint32_t ranks,
                                  const std::function<void(std::uint32_t, const ByteExchange&)>& body,
                                  std::chrono::seconds limit = std::chrono::seconds(90));

/// The first thing that went wrong, with the rank's number; "" when nothing did.
std::string first_error(const std::vector<Ending>& endings);

}  // namespace weft::test
