#include "weft/launch/plan_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "weft/base/log.h"
#include "weft/base/terminal.h"
#include "weft/launch/flag_names.h"
#include "weft/launch/model_plan.h"
#include "weft/scheduling/orders/check.h"
#include "weft/scheduling/plan/plan.h"
#include "weft/scheduling/simulation/chrome_trace.h"
#include "weft/training/config/load.h"
#include "weft/training/trace_facts.h"

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

Trace read_trace_file(const std::filesystem::path& path, const char* flag) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf()))
    throw UsageError(fmt::format("{}: cannot read {}", flag, path.string()));
  return from_chrome_trace(text.str());
}

/// A trace, or the folder of the parts of one whose run did not come to its end.
Trace read_trace(const std::string& path, const char* flag) {
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) return read_trace_file(path, flag);
  std::vector<std::filesystem::path> parts;
  for (const auto& entry : std::filesystem::directory_iterator(path, error))
    if (entry.path().extension() == ".json") parts.push_back(entry.path());
  if (parts.empty())
    throw UsageError(fmt::format("{}: the folder {} holds no part of a trace (rank-NNNN.json)", flag, path));
  std::sort(parts.begin(), parts.end());
  Trace trace;
  for (const auto& part : parts) {
    Trace more = read_trace_file(part, flag);
    trace.facts.merge(more.facts);
    trace.events.insert(trace.events.end(), more.events.begin(), more.events.end());
  }
  return trace;
}

/// Costs of another model say nothing about this one, and nobody sees it in the numbers.
void tell_other_facts(const PlanArguments& arguments, const TraceFacts& trace, const std::string& path) {
  if (!arguments.config) return;
  const std::string others =
      differing_facts(trace, cost_facts(load_plan_config(*arguments.config, arguments.overrides).config));
  if (!others.empty()) log::warning(fmt::format("{} is of another model or machine: {}", path, others));
}

// Millions of ops: only what is shown is kept.
Record record_for(const PlanArguments& arguments) {
  if (!arguments.against.empty()) return Record::timeline;
  if (arguments.compare) return Record::nothing;
  return arguments.format == "svg" || arguments.format == "chrome" ? Record::events : Record::timeline;
}

PlanCosts costs_of(const PlanArguments& arguments) {
  PlanCosts costs;
  costs.cores = arguments.cores;
  costs.early_gradient = arguments.early_gradient || !arguments.against.empty();
  costs.record = record_for(arguments);
  if (!arguments.costs_from.empty()) {
    const Trace trace = read_trace(arguments.costs_from, "--costs-from");
    tell_other_facts(arguments, trace.facts, arguments.costs_from);
    costs.measured = measure_costs(trace.events);
  } else if (!arguments.cost.empty()) {
    costs.uniform = uniform_costs(arguments.cost[0], arguments.cost[1], arguments.cost[2], arguments.cost[3]);
  }
  return costs;
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

/// The override of this key, if there is one.
const ConfigOverride* override_of(const PlanArguments& arguments, std::string_view path) {
  for (const ConfigOverride& one : arguments.overrides)
    if (one.path == path) return &one;
  return nullptr;
}

// A flag that would change nothing is refused, so that nobody takes the plan for one of what was asked.
void refuse_flags_without_effect(const PlanArguments& arguments) {
  const auto refuse_if = [](bool refused, const std::string& what) {
    if (refused) throw UsageError(what);
  };
  const bool config = arguments.config.has_value();
  const bool compare = arguments.compare;
  const std::string other_config = " is for a plan without --config; use ";
  refuse_if(config && !arguments.schedule.empty(),
            "--schedule" + other_config + "--pipeline_parallel_schedule");
  refuse_if(config && arguments.ranks != 0, "--ranks" + other_config + "--set parallelism.pp=...");
  refuse_if(config && arguments.microbatches != 0,
            "--microbatches" + other_config + "--set tokens.batch_accumulation_per_replica=...");
  refuse_if(config && arguments.chunks != 0,
            "--chunks" + other_config + "--set pipeline_parallel.chunks=...");
  refuse_if(config && arguments.max_in_flight != 0,
            "--max-in-flight" + other_config + "--set pipeline_parallel.max_in_flight=...");
  if (!config && !arguments.overrides.empty())
    throw UsageError(arguments.overrides.front().flag +
                     " changes a configuration and needs --config; without one, use --schedule, --ranks, "
                     "--microbatches, --chunks and --max-in-flight");
  refuse_if(compare && !arguments.schedule.empty(),
            "--schedule has no place beside --compare, which plans all schedules; leave out one of them");
  for (const char* key : {"pipeline_parallel.schedule", "pipeline_parallel.chunks"})
    if (const ConfigOverride* one = override_of(arguments, key); compare && one != nullptr)
      throw UsageError(one->flag + ": " + key +
                       " has no place beside --compare, which plans all schedules, each with the stages per "
                       "rank that it needs; leave it out");
  const bool drawn = arguments.format != "text" && arguments.format != "json";
  const std::string not_drawn = "--format " + arguments.format + ": a ";
  refuse_if(compare && drawn, not_drawn +
                                  "comparison comes as text or json only; for other formats plan one "
                                  "schedule, without --compare");
  refuse_if(!arguments.against.empty() && drawn,
            not_drawn + "plan beside a trace comes as text or json only; leave out --format or --against");
  refuse_if(
      arguments.early_gradient && (config || !arguments.costs_from.empty() || !arguments.against.empty()),
      "--early-gradient is for a plan with --schedule alone; with --config, --costs-from or --against a "
      "B's gradient leaves after its I half anyway");
  refuse_if(compare && !arguments.against.empty(),
            "--against lays a trace beside the plan of one schedule; leave out --against or --compare");
  refuse_if(arguments.memory != 0 && !compare,
            "--memory marks the best of several schedules; use it with --compare");
  refuse_if(arguments.memory != 0 && !config,
            "--memory needs --config, which says how large the stages are; without it, use --max-in-flight");
  refuse_if(arguments.step != 0 && arguments.against.empty(),
            "--step says which step of a trace; use it with --against TRACE");
  refuse_if(compare && !config && !arguments.costs_from.empty(),
            "--costs-from with --compare needs --config, which says how to cut the model anew");
}

void require_sizes(const PlanArguments& arguments) {
  if (arguments.ranks == 0 || arguments.microbatches == 0) {
    throw UsageError("--ranks and --microbatches are needed, unless --config or a .csv file says them");
  }
}

/// Plans any schedule for what the arguments describe.
std::function<Plan(const std::string&)> planner(const PlanArguments& arguments) {
  if (!arguments.config) {
    ScheduleRequest request = request_of(arguments);
    if (!arguments.files.empty() && (request.ranks == 0 || request.microbatches == 0)) {
      const Schedule first = check_order(read_order_file(arguments.files.front()));
      if (request.ranks == 0) request.ranks = first.ranks;
      if (request.microbatches == 0) request.microbatches = first.microbatches;
    } else {
      require_sizes(arguments);
    }
    return plan_maker(request, costs_of(arguments).settings());
  }
  NanotronConfig config = load_plan_config(*arguments.config, arguments.overrides).config;
  config.pipeline_parallel.chunks.reset();  // the file's number is that of the file's schedule
  return [config, costs = costs_of(arguments)](const std::string& schedule) mutable {
    config.pipeline_parallel.schedule = schedule;
    return plan_of_model(config, costs);
  };
}

Plan wanted_plan(const PlanArguments& arguments, const PlanCosts& costs) {
  if (arguments.config) {
    const LoadedConfig loaded = load_plan_config(*arguments.config, arguments.overrides);
    return plan_of_model(loaded.config, costs, loaded.sources);
  }
  if (arguments.schedule.empty()) throw UsageError("--config or --schedule is needed");
  if (!arguments.schedule.ends_with(".csv")) require_sizes(arguments);
  return make_plan(make_schedule(request_of(arguments)), costs.settings());
}

// Without costs of the user's the plan takes those of the trace: times of a run beside made-up ones say
// nothing.
void print_plan_against_trace(const PlanArguments& arguments) {
  const Trace trace = read_trace(arguments.against, "--against");
  tell_other_facts(arguments, trace.facts, arguments.against);
  PlanCosts costs = costs_of(arguments);
  Plan plan = wanted_plan(arguments, costs);
  std::string head;
  if (arguments.cost.empty() && !costs.measured) {
    try {
      costs.measured = measure_costs(trace.events);
      head =
          "The plan's costs are the mean times of this trace's ops, in milliseconds (--cost or --costs-from "
          "gives others).\n\n";
    } catch (const ScheduleError& e) {
      head = fmt::format("The plan's costs are 1 each, not those of the run: {}.\n\n", e.what());
    }
    // With another number of stages it is another pipeline, which the comparison says better.
    if (costs.measured && costs.measured->stages.size() == plan.schedule.stage_count)
      plan = wanted_plan(arguments, costs);
  }
  const PlanAgainstTrace both = lay_against_trace(plan, trace.events, arguments.step);
  print(arguments.format == "json" ? against_trace_to_json(both)
                                   : head + against_trace_to_text(both, terminal_width()));
}

void print_comparison(const PlanArguments& arguments) {
  const std::vector<ComparedSchedule> schedules = compare_schedules(planner(arguments), arguments.files);
  print(arguments.format == "json" ? comparison_to_json(schedules, arguments.memory)
                                   : comparison_to_text(schedules, arguments.memory));
}

}  // namespace

void print_plan(const PlanArguments& arguments) {
  log::start(log::Level::info, "");
  refuse_flags_without_effect(arguments);
  if (arguments.compare) return print_comparison(arguments);
  if (!arguments.against.empty()) return print_plan_against_trace(arguments);
  const Plan plan = wanted_plan(arguments, costs_of(arguments));
  if (!plan.schedule.remark.empty()) log::info(plan.schedule.remark);
  print(shown(plan, arguments.format));
}

void check_schedule_file(const CheckArguments& arguments) {
  const OrderText text = read_order_file(arguments.file);
  Schedule schedule = check_order(text);
  if (arguments.slots != 0) check_slots(schedule, arguments.slots, &text);
  const std::uint32_t slots = smallest_slots(schedule);
  const std::string remark = schedule.remark.empty() ? "" : schedule.remark + '\n';
  SimulationSettings settings = uniform_costs(1, 1, 1, 0);
  settings.record = Record::timeline;
  print(shown(make_plan(std::move(schedule), settings), "text") + remark);
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
  if (!(value * factor >= 1 && value * factor <= 1e18)) {
    throw UsageError(
        "'" + text +
        "' is no amount of memory; allowed: a number, then nothing, kB, MB, GB, KiB, MiB or GiB");
  }
  return static_cast<std::uint64_t>(value * factor);
}

}  // namespace weft
