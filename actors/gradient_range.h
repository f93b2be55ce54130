#pragma once
#include <cstdint>
#include <span>

#include "weft/actors/stage.h"

namespace weft {

/// The one range of memory that holds all gradients of a stage, so that they can be summed, measured or
/// shared out as a whole: from the first gradient to the end of the last one, with nothing between two but
/// what rounds up to arena_alignment (zero, as arenas are). Throws Error, naming stage and parameter, when
/// they do not lie so.
[[nodiscard]] std::span<float> gradient_range(std::uint16_t stage, std::span<const Parameter> parameters);

}  // namespace weft
