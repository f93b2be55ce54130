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

bool exists(const ScheduleRequest& request) {
  try {
    static_cast<void>(make_schedule(request));
    return true;
  } catch (const ScheduleError&) {
    return false;
  }
}

/// The key whose value leaves no schedule: the one without which, and without those that are looked at after
/// it, there is one.
std::string key_at_fault(ScheduleRequest request) {
  const bool file = is_schedule_file(request.schedule);
  request.max_in_flight = 0;
  if (exists(request)) return "pipeline_parallel.max_in_flight";
  if (file) {
    request.chunks = 0;
    if (exists(request)) return "pipeline_parallel.chunks";
  }
  request.microbatches = file ? 0 : 2 * request.ranks;  // enough for every schedule
  if (exists(request)) return "tokens.batch_accumulation_per_replica";
  request.ranks = 0;
  if (file && exists(request)) return "parallelism.pp";
  return "pipeline_parallel.schedule";
}

}  // namespace

Schedule configured_schedule(const NanotronConfig& config, const ConfigSources& sources) {
  check_chunks(config, sources);
  const ScheduleRequest request = schedule_request(config);
  try {
    return make_schedule(request);
  } catch (const ScheduleError& e) {
    const std::string key = key_at_fault(request);
    throw config_error(sources.find(key), key, in_one_line(e.what()));
  }
}

}  // namespace weft
