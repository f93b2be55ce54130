#include "weft/base/text/spelling.h"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace weft {
namespace {

/// Levenshtein's distance.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nearest_spelling(std::string_view name, std::span<const std::string_view> candidates) {
  constexpr std::size_t longest_name = 64;  // a longer one is no misspelling of a key
  if (name.empty() || name.size() > longest_name) return {};
  std::string_view nearest;
  std::size_t least = std::max<std::size_t>(1, name.size() / 3) + 1;
  for (const std::string_view candidate : candidates) {
    const std::size_t letters = distance(name, candidate);
    if (letters < least) {
      nearest = candidate;
      least = letters;
    }
  }
  if (!nearest.empty() || name.size() < 3) return nearest;
  const auto longer = std::find_if(candidates.begin(), candidates.end(),
                                   [&](std::string_view candidate) { return candidate.starts_with(name); });
  return longer == candidates.end() ? std::string_view() : *longer;
}

}  // namespace weft
