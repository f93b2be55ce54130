#pragma once
// The schedule's name in the configuration: two spellings of the key, and what a name must be.
#include <cstdint>
#include <string>

#include "weft/training/config/complaints.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/node.h"

namespace weft {

/// Nanotron's `parallelism.pp_engine` is another spelling of `pipeline_parallel.schedule`: moves it there.
/// The one of the later override wins; it is complained of when two in one place name different schedules.
void resolve_schedule_spellings(Node& root, Complaints& complaints);

/// Whether `schedule` names a file with a custom order.
[[nodiscard]] bool is_schedule_file(const std::string& schedule);

/// Throws ConfigError when `schedule` is no known name and no readable `.csv` file.
void check_schedule_name(const std::string& schedule, const Source& source, const std::string& path);

/// Stages per rank: `chunks`, or what the schedule needs; 0 for a file, which says so itself. The schedule's
/// name has been checked.
[[nodiscard]] std::int64_t stages_per_rank(const NanotronConfig& config);

/// Throws ConfigError when the schedule does not run with so many stages per rank.
void check_chunks(const NanotronConfig& config, const ConfigSources& sources);

}  // namespace weft
