#include "weft/launch/plan_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "weft/launch/flag_names.h"
#include "weft/launch/model_plan.h"
#include "weft/launch/terminal.h"
#include "weft/scheduling/check.h"
#include "weft/scheduling/plan.h"
#include "weft/training/config/load.h"

namespace weft {
namespace {

void print(const std::string& text) { std::fwrite(text.data(), 1, text.size(), stdout); }

std::string shown(const Plan& plan, const std::string& format) {
  if (format == "json") return plan_to_json(plan);
  if (format == "csv") return plan_to_csv(plan);
  if (format == "svg") return plan_to_svg(plan);
  if (format == "chrome") return plan_to_chrome(plan);
  return terminal_has_colours() ? plan_to_coloured_text(plan, terminal_width())
                                : plan_to_text(plan, terminal_width());
}

std::vector<TraceEvent> read_trace(const std::string& path, const char* flag) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf())) throw UsageError(fmt::format("{}: cannot read {}", flag, path));
  return from_chrome_trace(text.str());
}

PlanCosts costs_of(const PlanArguments& arguments) {
  PlanCosts costs;
  costs.cores = arguments.cores;
  if (!arguments.costs_from.empty())
    costs.measured = measure_costs(read_trace(arguments.costs_from, "--costs-from"));
  else if (!arguments.cost.empty())
    costs.uniform = uniform_costs(arguments.cost[0], arguments.cost[1], arguments.cost[2], arguments.cost[3]);
  return costs;
}

/// Costs for a schedule without a model.
SimulationSettings settings_of(const PlanArguments& arguments) {
  if (arguments.compare && !arguments.costs_from.empty())
    throw UsageError("--costs-from with --compare needs --config, which says how to cut the model anew");
  return costs_of(arguments).settings();
}

ScheduleRequest request_of(const PlanArguments& arguments) {
  ScheduleRequest request;
  request.schedule = arguments.schedule;
  request.ranks = arguments.ranks;
  request.microbatches = arguments.microbatches;
  request.chunks = arguments.chunks;
  request.max_in_flight = arguments.max_in_flight;
  return request;
}

void require_sizes(const PlanArguments& arguments) {
  if (arguments.ranks == 0 || arguments.microbatches == 0) {
    throw UsageError("--ranks and --microbatches are needed, unless --config or a .csv file says them");
  }
}

/// Plans any schedule for what the arguments describe.
std::function<Plan(const ScheduleInfo&)> planner(const PlanArguments& arguments) {
  if (!arguments.config) {
    require_sizes(arguments);
    return plan_maker(arguments.ranks, arguments.microbatches, settings_of(arguments));
  }
  return [config = load_config(*arguments.config, arguments.overrides).config,
          costs = costs_of(arguments)](const ScheduleInfo& schedule) mutable {
    config.pipeline_parallel.schedule = schedule.name;
    config.pipeline_parallel.chunks.reset();
    return plan_of_model(config, costs);
  };
}

Plan wanted_plan(const PlanArguments& arguments) {
  if (arguments.config) {
    return plan_of_model(load_config(*arguments.config, arguments.overrides).config, costs_of(arguments));
  }
  if (arguments.schedule.empty()) throw UsageError("--config or --schedule is needed");
  if (!arguments.schedule.ends_with(".csv")) require_sizes(arguments);
  return make_plan(make_schedule(request_of(arguments)), settings_of(arguments));
}

}  // namespace

void print_plan(const PlanArguments& arguments) {
  if (arguments.compare) {
    return print(comparison_to_text(compare_schedules(planner(arguments)), arguments.memory));
  }
  const Plan plan = wanted_plan(arguments);
  if (arguments.against.empty()) return print(shown(plan, arguments.format));
  print(
      plan_against_trace(plan, read_trace(arguments.against, "--against"), arguments.step, terminal_width()));
}

void check_schedule_file(const CheckArguments& arguments) {
  const OrderText text = read_order_file(arguments.file);
  Schedule schedule = check_order(text);
  if (arguments.slots != 0) check_slots(schedule, arguments.slots, &text);
  const std::uint32_t slots = smallest_slots(schedule);
  print(shown(make_plan(std::move(schedule), uniform_costs(1, 1, 1, 0)), "text"));
  print(fmt::format("{} is complete, ordered and free of deadlock; it needs {} slots on its fullest rank\n",
                    arguments.file, slots));
}

std::uint64_t parse_bytes(const std::string& text) {
  std::size_t end = 0;
  double value = -1;
  try {
    value = std::stod(text, &end);
  } catch (const std::logic_error&) {
  }
  const std::string unit = text.substr(end);
  double factor = 0;
  for (const auto& [name, size] : {std::pair{"", 1.0},
                                   {"B", 1.0},
                                   {"kB", 1e3},
                                   {"MB", 1e6},
                                   {"GB", 1e9},
                                   {"TB", 1e12},
                                   {"KiB", 1024.0},
                                   {"MiB", 1048576.0},
                                   {"GiB", 1073741824.0},
                                   {"TiB", 1099511627776.0}}) {
    if (unit == name) factor = size;
  }
  if (!(value > 0) || factor == 0 || value * factor > 1e18) {
    throw UsageError(
        "'" + text +
        "' is no amount of memory; allowed: a number, then nothing, kB, MB, GB, KiB, MiB or GiB");
  }
  return static_cast<std::uint64_t>(value * factor);
}

}  // namespace weft
