#include "weft/launch/launch_command.h"

#include "weft/launch/flag_names.h"
#include "weft/launch/process.h"
#include "weft/launch/rank_variables.h"
#include "weft/launch/supervisor.h"

namespace weft {

int launch_program(const LaunchArguments& arguments) {
  if (arguments.program.front().empty()) throw UsageError("launch: the name of the program is empty");
  Job job;
  job.program = find_program(arguments.program.front());
  job.arguments = arguments.program;
  job.ranks = arguments.ranks;
  job.stop_by = StopBy::signal;
  job.heartbeat_limit = heartbeat_limit();
  if (arguments.ranks == 1) job.speaker = 0;  // nobody to tell it from
  return supervise(job).exit_status();
}

}  // namespace weft
