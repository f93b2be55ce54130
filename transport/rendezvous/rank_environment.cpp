#include "weft/transport/rendezvous/rank_environment.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::uint32_t largest_world = 1U << 20;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) {
    throw ConfigError(
        std::string(name) +
        ": is not set although WEFT_RANK is; allowed: both, as the launcher sets them, or none");
  }
  return value;
}

std::uint32_t number(const char* name, std::string_view text, std::uint32_t least, std::uint32_t most) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most) {
    const std::string others = most > least ? " to " + std::to_string(most) : "";
    throw ConfigError(std::string(name) + ": '" + std::string(text) +
                      "' does not fit; allowed: " + std::to_string(least) + others);
  }
  return value;
}

std::uint32_t number_or(const char* name, std::uint32_t otherwise, std::uint32_t least, std::uint32_t most) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : number(name, value, least, most);
}

}  // namespace

std::optional<RankEnvironment> rank_environment() {
  if (std::getenv("WEFT_RANK") == nullptr) return std::nullopt;
  RankEnvironment environment;
  const std::uint32_t world_size = number("WEFT_WORLD_SIZE", variable("WEFT_WORLD_SIZE"), 1, largest_world);
  // one pipeline only, so far
  const std::uint32_t replicas = number_or("WEFT_REPLICAS", 1, 1, 1);
  environment.mesh = Mesh(world_size / replicas, replicas);
  environment.rank = number("WEFT_RANK", variable("WEFT_RANK"), 0, world_size - 1);
  environment.host = number_or("WEFT_HOST", 0, 0, world_size - 1);
  if (const char* name = std::getenv("WEFT_HOST_NAME")) environment.host_name = name;
  environment.local_world_size = number_or("LOCAL_WORLD_SIZE", world_size, 1, world_size);
  environment.local_rank = number_or("LOCAL_RANK", environment.rank, 0, environment.local_world_size - 1);
  if (environment.local_rank >= environment.local_world_size)
    throw ConfigError("LOCAL_RANK: is not set although LOCAL_WORLD_SIZE is; allowed: both, or none");
  const std::string_view place = variable("WEFT_RENDEZVOUS");
  const std::size_t colon = place.rfind(':');
  if (colon == std::string_view::npos || colon == 0) {
    throw ConfigError("WEFT_RENDEZVOUS: '" + std::string(place) + "' is no address; allowed: HOST:PORT");
  }
  environment.launcher_host = place.substr(0, colon);
  environment.launcher_port =
      static_cast<std::uint16_t>(number("WEFT_RENDEZVOUS", place.substr(colon + 1), 1, 65535));
  environment.token =
      read_run_token(static_cast<int>(number("WEFT_TOKEN_FD", variable("WEFT_TOKEN_FD"), 3, 1U << 20)));
  return environment;
}

}  // namespace weft
