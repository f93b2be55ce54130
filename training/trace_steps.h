#pragma once
#include <cstdint>

namespace weft {

/// The training steps that a trace holds: from `first` to `last`, both of them too.
struct TraceSteps {
  std::uint64_t first = 1;
  std::uint64_t last = UINT64_MAX;
};

}  // namespace weft
