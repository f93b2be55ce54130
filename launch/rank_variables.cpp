#include "weft/launch/rank_variables.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "weft/base/error.h"

namespace weft {

Variables rank_variables(std::uint32_t rank, std::uint32_t ranks, const Meeting& meeting) {
  const std::string number = std::to_string(rank);
  const std::string count = std::to_string(ranks);
  Variables variables{
      {"WEFT_RANK", number},
      {"WEFT_WORLD_SIZE", count},
      {"WEFT_RENDEZVOUS", meeting.host + ":" + std::to_string(meeting.port)},
      {"WEFT_TOKEN_FD", std::to_string(meeting.token_descriptor)},
      {"RANK", number},
      {"WORLD_SIZE", count},
      {"LOCAL_RANK", number},
      {"LOCAL_WORLD_SIZE", count},
      {"MASTER_ADDR", meeting.host},
      {"MASTER_PORT", std::to_string(meeting.free_port)},
  };
  for (const auto& [name, value] :
       {std::pair{"UCX_ERROR_SIGNALS", ""}, {"UCX_LOG_FILE", "stderr"}, {"UCX_WARN_UNUSED_ENV_VARS", "n"}})
    if (std::getenv(name) == nullptr) variables.emplace_back(name, value);
  return variables;
}

std::chrono::milliseconds heartbeat_limit() {
  const char* text = std::getenv("WEFT_HEARTBEAT_LIMIT");
  if (text == nullptr) return std::chrono::seconds(10);
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  if (end == text || *end != '\0' || !(seconds >= 1 && seconds <= 1e6)) {
    throw ConfigError("WEFT_HEARTBEAT_LIMIT: '" + std::string(text) +
                      "' does not fit; allowed: seconds, 1 to 1000000");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
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
