#pragma once
#include <cstdint>

namespace weft {

/// What a configuration is read for: a plan needs no data, no optimizer and no number of steps.
enum class ConfigUse : std::uint8_t { training, plan };

}  // namespace weft
