#include "weft/scheduling/orders/standstill.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace weft {

std::string describe_standstill(std::uint32_t rank, const std::function<Wait(std::uint32_t)>& wait_of) {
  std::vector<Wait> path;
  std::unordered_map<std::uint32_t, std::size_t> position;  // of a rank in the path
  while (position.try_emplace(rank, path.size()).second) {
    path.push_back(wait_of(rank));
    rank = path.back().owner;
  }
  path.erase(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(position[rank]));
  constexpr std::size_t most_links = 16;
  std::string chain;
  for (std::size_t i = 0; i < std::min(path.size(), most_links); ++i)
    chain += fmt::format("\n  {} waits for {}, which stands behind", path[i].cell, path[i].wanted);
  if (path.size() > most_links) chain += fmt::format("\n  ... ({} more)", path.size() - most_links);
  return chain + fmt::format("\n  {}", path[0].cell);
}

}  // namespace weft
