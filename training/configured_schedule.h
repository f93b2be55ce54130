#pragma once
// The schedule that a configuration asks for.
#include <cstdint>
#include <vector>

#include "weft/scheduling/orders/schedule.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"

namespace weft {

/// Ranks, chunks, micro-batches and cap of the configuration; its values have been checked one by one.
[[nodiscard]] ScheduleRequest schedule_request(const NanotronConfig& config);

/// The schedule itself. Throws ConfigError that names the rule and the key at fault when there is none of
/// this size.
[[nodiscard]] Schedule configured_schedule(const NanotronConfig& config, const ConfigSources& sources = {});

}  // namespace weft
