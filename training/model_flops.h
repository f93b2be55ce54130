#pragma once
#include "weft/training/config/nanotron_config.h"

namespace weft {

/// Model FLOPs of one optimizer step, forward and backward: 3 B S (L layers + head) for B samples of S
/// tokens (llama_flops.h).
[[nodiscard]] double step_flops(const NanotronConfig& config);

}  // namespace weft
