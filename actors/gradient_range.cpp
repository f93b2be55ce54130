#include "weft/actors/gradient_range.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "weft/base/error.h"

namespace weft {

std::span<float> gradient_range(std::uint16_t stage, std::span<const Parameter> parameters) {
  std::vector<const Parameter*> sorted;
  for (const Parameter& parameter : parameters) {
    if (parameter.gradient == nullptr)
      throw Error(fmt::format("stage {}: {} has no gradient after Stage::allocate", stage, parameter.name));
    sorted.push_back(&parameter);
  }
  if (sorted.empty()) return {};
  std::sort(sorted.begin(), sorted.end(),
            [](const Parameter* a, const Parameter* b) { return a->gradient < b->gradient; });
  const auto end_of = [](const Parameter& parameter) {
    return parameter.gradient + parameter.shape.elements();
  };
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    const Parameter& before = *sorted[i - 1];
    const Parameter& after = *sorted[i];
    if (end_of(before) > after.gradient)
      throw Error(
          fmt::format("stage {}: the gradients of {} and {} share memory", stage, before.name, after.name));
    if (after.gradient - end_of(before) >= static_cast<std::ptrdiff_t>(arena_alignment / sizeof(float)))
      throw Error(
          fmt::format("stage {}: the gradients of {} and {} do not follow one another: Stage::allocate takes "
                      "all gradients in turn, apart from values and all else",
                      stage, before.name, after.name));
  }
  return {sorted.front()->gradient, end_of(*sorted.back())};
}

}  // namespace weft
