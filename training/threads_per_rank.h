#pragma once
// How many threads compute on a rank.
#include <cstdint>

#include "weft/training/config/nanotron_config.h"

namespace weft {

/// `pipeline_parallel.threads`; `auto` gives each of the `ranks_here` ranks of this host an equal share of
/// the cores that this process may use, at least one. Plan and run both ask here.
[[nodiscard]] int threads_per_rank(const NanotronConfig& config, std::uint32_t ranks_here);

}  // namespace weft
