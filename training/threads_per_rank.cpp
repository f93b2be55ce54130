#include "weft/training/threads_per_rank.h"

#include <algorithm>

#include "weft/base/cores.h"

namespace weft {

int threads_per_rank(const NanotronConfig& config, std::uint32_t ranks_here) {
  if (config.pipeline_parallel.threads) return static_cast<int>(*config.pipeline_parallel.threads);
  return static_cast<int>(std::max(1U, usable_cores() / std::max(1U, ranks_here)));
}

}  // namespace weft
