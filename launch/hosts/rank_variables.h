#pragma once
// The environment of a rank.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "weft/transport/mesh.h"

namespace weft {

using Variables = std::vector<std::pair<std::string, std::string>>;

/// Where a rank finds its launcher.
struct Meeting {
  std::string host;
  std::uint16_t port = 0;
  std::uint16_t free_port = 0;  ///< for MASTER_PORT: a port that nothing listens on
  int token_descriptor = -1;
};

/// Who a rank is, as RankEnvironment says.
struct RankPlace {
  std::uint32_t rank = 0;
  Mesh mesh;
  std::uint32_t host = 0;
  std::string host_name;
  std::uint32_t local_rank = 0;
  std::uint32_t local_world_size = 1;
};

/// What rank_environment() reads, and the names that other launchers use: RANK, WORLD_SIZE, LOCAL_RANK,
/// LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT. And what UCX reads before main() runs, unless it is set
/// already: no signal handlers of its own, no complaints about variables. All other settings are the
/// transport's.
[[nodiscard]] Variables rank_variables(const RankPlace& place, const Meeting& meeting);

/// This process's environment with `added` in place of older values; NAME=VALUE.
[[nodiscard]] std::vector<std::string> environment_with(const Variables& added);

}  // namespace weft
