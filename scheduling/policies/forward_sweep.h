#pragma once
// The order of an evaluation: forward ops only.
#include <cstdint>
#include <vector>

#include "weft/scheduling/policy.h"

namespace weft {

/// Names F ops alone, in micro-batch order at every stage, the deepest stage whose input is there first: what
/// is nearest to its end leaves the pipeline first, and nothing waits for what only training needs.
class ForwardSweep {
 public:
  void reset() noexcept { next_.clear(); }
  [[nodiscard]] Decision choose(const RankView& view);

 private:
  std::vector<std::uint32_t> next_;  // per stage of the rank: its next micro-batch
};

}  // namespace weft
