#pragma once
// Which rank this process is, as told by the launcher through the environment.
#include <cstdint>
#include <optional>
#include <string>

#include "weft/transport/mesh.h"
#include "weft/transport/rendezvous/run_token.h"

namespace weft {

/// The place of this process in a run. One process is one rank.
struct RankEnvironment {
  std::uint32_t rank = 0;              ///< WEFT_RANK, in the world
  Mesh mesh;                           ///< WEFT_WORLD_SIZE ranks in WEFT_REPLICAS replicas of a pipeline
  std::uint32_t host = 0;              ///< WEFT_HOST, the number of this host among the run's
  std::string host_name;               ///< WEFT_HOST_NAME, for people; may be empty
  std::uint32_t local_rank = 0;        ///< LOCAL_RANK, the number among the ranks of this host
  std::uint32_t local_world_size = 1;  ///< LOCAL_WORLD_SIZE, the number of ranks on this host
  std::string launcher_host;           ///< WEFT_RENDEZVOUS before the last colon
  std::uint16_t launcher_port = 0;     ///< WEFT_RENDEZVOUS after the last colon
  RunToken token{};                    ///< from the descriptor WEFT_TOKEN_FD
};

/// The environment of this process, or nothing when WEFT_RANK is not set: then all ranks are threads of the
/// process. It can be asked more than once. Without the others' variables there is one host, which holds all
/// ranks, and one replica. Throws ConfigError, naming the variable, when one is missing, malformed or at odds
/// with another.
[[nodiscard]] std::optional<RankEnvironment> rank_environment();

}  // namespace weft
