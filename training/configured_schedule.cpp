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

namespace {

// A chain of ops that wait for each other comes as one line each.
std::string in_one_line(std::string_view text) {
  std::string line;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\n') {
      line += text[i];
      continue;
    }
    line += line.ends_with(':') ? " " : "; ";
    while (i + 1 < text.size() && text[i + 1] == ' ') ++i;
  }
  return line;
}

}  // namespace

Schedule configured_schedule(const NanotronConfig& config, const ConfigSources& sources) {
  try {
    return make_schedule(schedule_request(config));
  } catch (const ScheduleError& e) {
    throw config_error(sources.find("pipeline_parallel.schedule"), "pipeline_parallel.schedule",
                       in_one_line(e.what()));
  }
}

}  // namespace weft
