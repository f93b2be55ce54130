#pragma once
// The plan of a configured training: its schedule, the relative costs of its stages, the memory of its ranks.
#include <vector>

#include "weft/scheduling/plan.h"
#include "weft/training/config/nanotron_config.h"

namespace weft {

/// Plans without taking memory for the model. A rank's share of the model's arithmetic, if it were cut
/// evenly, counts as 1; each stage's F, I and W cost its share by FLOPs, times `cost` (F, I, W, latency
/// between ranks; empty = 1, 1, 1, 0). Throws ConfigError, ScheduleError.
[[nodiscard]] Plan plan_of_model(const NanotronConfig& config, const std::vector<double>& cost);

}  // namespace weft
