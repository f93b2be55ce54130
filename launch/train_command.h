#pragma once
// `weft train`: the launcher of a training, and each of its ranks.
#include <optional>
#include <string>
#include <vector>

#include "weft/training/config/overrides.h"
#include "weft/training/trace_steps.h"

namespace weft {

struct TrainArguments {
  std::string config;
  std::vector<ConfigOverride> overrides;  ///< flags and --set, in the order of the command line
  std::optional<std::string> run_dir;
  std::optional<std::string> trace;
  std::optional<TraceSteps> trace_steps;  ///< with trace; none = all
  std::string resume;                     ///< "", "auto", "latest" or a folder
  bool dry_run = false;                   ///< say what would be started, and start nothing
  bool print_config = false;              ///< print the merged configuration
};

/// Checks everything, then starts one process per rank with `command_line` (this process's own) and
/// supervises them; with WEFT_RANK in the environment this process is such a rank and trains. With transport
/// `inproc` all ranks are threads of this process. Returns the exit status. Throws ConfigError,
/// ScheduleError, before anything starts; as a rank, whatever ended the training.
[[nodiscard]] int train(const TrainArguments& arguments, const std::vector<std::string>& command_line);

}  // namespace weft
