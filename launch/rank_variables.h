#pragma once
// The environment of a rank on this host.
#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace weft {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Where a rank finds its launcher.
struct Meeting {
  std::string host;
  std::uint16_t port = 0;
  std::uint16_t free_port = 0;  ///< for MASTER_PORT: a port that nothing listens on
  int token_descriptor = -1;
};

/// WEFT_RANK, WEFT_WORLD_SIZE, WEFT_RENDEZVOUS, WEFT_TOKEN_FD and the names that other launchers use: RANK,
/// WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT. And what UCX reads before main() runs,
/// unless it is set already: no signal handlers of its own, no complaints about variables. All other settings
/// are the transport's.
[[nodiscard]] Variables rank_variables(std::uint32_t rank, std::uint32_t ranks, const Meeting& meeting);

/// WEFT_HEARTBEAT_LIMIT, in seconds, or 10 s: how long a rank may be silent. Longer for work under a
/// debugger. Throws ConfigError when it is no number from 1 to 1 000 000.
[[nodiscard]] std::chrono::milliseconds heartbeat_limit();

/// This process's environment with `added` in place of older values; NAME=VALUE.
[[nodiscard]] std::vector<std::string> environment_with(const Variables& added);

}  // namespace weft
