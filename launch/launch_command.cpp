#include "weft/launch/launch_command.h"

#include "weft/launch/flag_names.h"
#include "weft/launch/supervise.h"

namespace weft {

int launch_program(const LaunchArguments& arguments) {
  if (arguments.program.front().empty()) throw UsageError("launch: the name of the program is empty");
  Job job;
  job.program = arguments.program.front();
  job.arguments = arguments.program;
  job.mesh = Mesh(arguments.ranks, 1);
  job.stop_by = StopBy::signal;
  job.heartbeat_limit = heartbeat_limit();
  if (arguments.ranks == 1) job.speaker = 0;  // nobody to tell it from
  return supervise(job).exit_status();
}

}  // namespace weft
