#include "weft/training/configured_schedule.h"

#include "weft/base/error.h"
#include "weft/training/config/schedule_key.h"

namespace weft {

ScheduleRequest schedule_request(const NanotronConfig& config) {
  ScheduleRequest request;
  request.schedule = config.pipeline_parallel.schedule;
  request.ranks = static_cast<std::uint32_t>(config.parallelism.pp);
  request.chunks = static_cast<std::uint32_t>(stages_per_rank(config));
  request.microbatches = static_cast<std::uint32_t>(config.tokens.batch_accumulation_per_replica);
  request.max_in_flight = static_cast<std::uint32_t>(config.pipeline_parallel.max_in_flight.value_or(0));
  return request;
}

Schedule configured_schedule(const NanotronConfig& config, const ConfigSources& sources) {
  try {
    return make_schedule(schedule_request(config));
  } catch (const ScheduleError& e) {
    throw config_error(sources.find("pipeline_parallel.schedule"), "pipeline_parallel.schedule", e.what());
  }
}

}  // namespace weft
