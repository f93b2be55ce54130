#pragma once
// `weft plan` and `weft check`: what a schedule would do, without running anything.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/training/config/overrides.h"

namespace weft {

struct PlanArguments {
  std::optional<std::string> config;      ///< plan for the model of this file ...
  std::vector<ConfigOverride> overrides;  ///< ... with these changes;
  std::string schedule;                   ///< or for a schedule alone: a name or a .csv file
  std::uint32_t ranks = 0;                ///< 0 = as many as the .csv file has
  std::uint32_t microbatches = 0;
  std::uint32_t chunks = 0;         ///< stages per rank, 0 = what the schedule needs
  std::uint32_t max_in_flight = 0;  ///< 0 = the schedule's own peak
  std::vector<double> cost;         ///< F, I, W, latency between ranks; empty = 1, 1, 1, 0
  std::uint32_t cores = 0;          ///< that all ranks share, 0 = one each
  std::string costs_from;           ///< instead: the trace of a run whose ops say the costs
  std::string format = "text";      ///< text, json, csv, svg, chrome
  bool compare = false;             ///< all schedules side by side ...
  std::vector<std::string> files;   ///< ... and these orders
  bool early_gradient = false;      ///< a B's gradient leaves after its I half, as in a run
  std::uint64_t memory = 0;         ///< with compare: most bytes of a rank, 0 = no limit
  std::string against;              ///< a trace to lay beside the plan, and without other costs their source
  std::uint32_t step = 0;           ///< of that trace, 0 = the last
};

struct CheckArguments {
  std::string file;
  std::uint32_t slots = 0;  ///< also: does it run with so many pairs in flight, 0 = as many as it needs
};

/// Prints the plan to stdout. Throws ConfigError, ScheduleError, and UsageError, also for a flag that would
/// have no effect beside the others.
void print_plan(const PlanArguments& arguments);

/// Prints the plan of a good order to stdout. Throws ScheduleError, with the cell, for a bad one.
void check_schedule_file(const CheckArguments& arguments);

/// "2GiB", "500MB", "1000000". Throws UsageError.
[[nodiscard]] std::uint64_t parse_bytes(const std::string& text);

}  // namespace weft
