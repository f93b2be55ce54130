#include "weft/launch/hosts/rank_variables.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace weft {

Variables rank_variables(const RankPlace& place, const Meeting& meeting) {
  const std::string rank = std::to_string(place.rank);
  const std::string count = std::to_string(place.mesh.world_size());
  Variables variables{
      {"WEFT_RANK", rank},
      {"WEFT_WORLD_SIZE", count},
      {"WEFT_REPLICAS", std::to_string(place.mesh.replicas())},
      {"WEFT_HOST", std::to_string(place.host)},
      {"WEFT_HOST_NAME", place.host_name},
      {"WEFT_RENDEZVOUS", meeting.host + ":" + std::to_string(meeting.port)},
      {"WEFT_TOKEN_FD", std::to_string(meeting.token_descriptor)},
      {"RANK", rank},
      {"WORLD_SIZE", count},
      {"LOCAL_RANK", std::to_string(place.local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(place.local_world_size)},
      {"MASTER_ADDR", meeting.host},
      {"MASTER_PORT", std::to_string(meeting.free_port)},
  };
  for (const auto& [name, value] :
       {std::pair{"UCX_ERROR_SIGNALS", ""}, {"UCX_LOG_FILE", "stderr"}, {"UCX_WARN_UNUSED_ENV_VARS", "n"}})
    if (std::getenv(name) == nullptr) variables.emplace_back(name, value);
  return variables;
}

std::vector<std::string> environment_with(const Variables& added) {
  std::vector<std::string> environment;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view text = *one;
    const std::string_view name = text.substr(0, text.find('='));
    if (std::none_of(added.begin(), added.end(),
                     [&](const auto& variable) { return variable.first == name; })) {
      environment.emplace_back(text);
    }
  }
  for (const auto& [name, value] : added) environment.push_back(name + "=" + value);
  return environment;
}

}  // namespace weft
