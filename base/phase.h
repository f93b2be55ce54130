#pragma once
#include <cstdint>

namespace weft {

/// Training runs F and the backward ops; evaluation runs F alone.
enum class Phase : std::uint8_t { train, evaluate };

}  // namespace weft
