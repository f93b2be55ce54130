#include "weft/launch/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <span>
#include <sstream>

#include "weft/base/error.h"
#include "weft/launch/checkpoint_command.h"
#include "weft/launch/doctor.h"
#include "weft/launch/flag_names.h"
#include "weft/launch/launch_command.h"
#include "weft/launch/plan_command.h"
#include "weft/launch/train_command.h"
#include "weft/launch/version.h"
#include "weft/training/config/scalar.h"

namespace weft {
namespace {

/// The commands, and what they will do once the arguments have been read.
class CommandLine {
 public:
  CommandLine();
  /// Reads the arguments. Returns an exit status when there is nothing left to do (help), else -1. Throws
  /// UsageError.
  int parse(std::vector<std::string> arguments);
  int run() const { return actions_.at(app_.get_subcommands().front())(); }

 private:
  void add_train();
  void add_plan();
  void add_check();
  void add_launch();
  void add_convert();
  void add_checkpoint();
  void add_doctor();
  void add_version();
  [[nodiscard]] std::vector<std::string> commands() const;

  CLI::App app_{"Pipeline-parallel training by stage actors.", "weft"};
  std::map<const CLI::App*, std::function<int()>> actions_;
  std::vector<std::string> arguments_;  // as given
  TrainArguments train_;
  PlanArguments plan_;
  CheckArguments check_;
  LaunchArguments launch_;
  ConvertArguments convert_;
  CheckpointArguments checkpoint_;
};

/// A name of a file or folder must not be empty.
CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& text) { return text.empty() ? std::string("the name is empty") : ""; }, "");
}

/// A flag of the command line and the key it stands for.
struct KeyFlag {
  const char* flag;
  const char* path;
  const char* help;
};

/// Adds --config, --set and the flags that stand for one key.
void add_config_options(CLI::App* command, std::string& config, std::span<const KeyFlag> flags) {
  command->add_option("--config,--config-file", config, "YAML file with Nanotron's keys and weft's own");
  for (const KeyFlag& flag : flags) command->add_option(flag.flag, flag.help)->expected(1);
  command
      ->add_option("--set", "PATH=VALUE: replaces one value of the file, lists and blocks whole; repeatable")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

/// The values of these options in the order of the command line, so that the last one wins.
std::vector<ConfigOverride> overrides_of(const CLI::App& command, std::span<const KeyFlag> flags) {
  std::vector<ConfigOverride> overrides;
  std::map<const CLI::Option*, std::size_t> taken;
  for (const CLI::Option* option : command.parse_order()) {
    const std::string name =
        "--" + (option->get_lnames().empty() ? std::string() : option->get_lnames().front());
    const auto flag =
        std::find_if(flags.begin(), flags.end(), [&](const KeyFlag& one) { return name == one.flag; });
    if (name != "--set" && flag == flags.end()) continue;
    const std::string& value = option->results().at(taken[option]++);
    overrides.push_back(name == "--set" ? set_override(value) : flag_override(name, flag->path, value));
  }
  return overrides;
}

constexpr KeyFlag train_flags[] = {
    {"--pipeline_parallel_schedule", "pipeline_parallel.schedule",
     "Schedule: afab, 1f1b, ... or a .csv file"},
    {"--transport", "pipeline_parallel.transport",
     "auto, ucx or inproc (all ranks as threads of one process)"},
    {"--threads", "pipeline_parallel.threads", "Threads per rank, or auto"},
};

CommandLine::CommandLine() {
  app_.require_subcommand(1);
  app_.option_defaults()->take_last();
  app_.footer(
      "The main job, two ranks that train a small Llama on text that comes with weft:\n"
      "  weft train --config configs/config_tiny_llama.yaml\n"
      "weft COMMAND --help says more. Flags may be written with - or _ alike.\n"
      "Exit status: 0 all is well, 1 the command failed, 2 wrong usage or configuration, 128+n stopped by "
      "signal n.");
  app_.set_help_flag("-h,--help", "Shows this text");
  add_train();
  add_plan();
  add_check();
  add_launch();
  add_convert();
  add_checkpoint();
  add_doctor();
  add_version();
}

/// Steps A to B of `--trace-steps A:B`.
TraceSteps parse_trace_steps(const std::string& text) {
  const std::size_t colon = text.find(':');
  TraceSteps steps;
  const auto read = [&](const std::string& number, std::uint64_t& into) {
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), into);
    return !number.empty() && error == std::errc() && end == number.data() + number.size();
  };
  if (colon == std::string::npos || !read(text.substr(0, colon), steps.first) ||
      !read(text.substr(colon + 1), steps.last) || steps.first == 0 || steps.last < steps.first)
    throw UsageError("--trace-steps: '" + text +
                     "' names no steps; allowed: FIRST:LAST, from 1, the last one not before the first");
  return steps;
}

void CommandLine::add_train() {
  CLI::App* command = app_.add_subcommand("train", "Trains a Llama, one process per pipeline rank");
  command->footer(
      "Flags and --set win over the file, and the last one wins. Examples:\n"
      "  weft train --config configs/config_tiny_llama.yaml\n"
      "  weft train --config configs/config_tiny_llama.yaml --pipeline_parallel_schedule afab --set "
      "parallelism.pp=4");
  add_config_options(command, train_.config, train_flags);
  command->get_option("--config")->required();
  command->add_option("--resume", train_.resume,
                      "auto (from the start where there is no checkpoint), latest, or the folder of a "
                      "checkpoint or of a run");
  command->add_option("--run-dir", train_.run_dir, "The run's folder instead of runs/<general.run>");
  command->add_option(
      "--trace", train_.trace,
      "FILE: writes what was executed as a Chrome trace; a bare name lies in the run's folder, where the "
      "ranks write to trace-parts/ meanwhile");
  command
      ->add_option_function<std::string>(
          "--trace-steps", [this](const std::string& text) { train_.trace_steps = parse_trace_steps(text); },
          "FIRST:LAST: only these steps, both of them too (and evaluations after them)")
      ->needs("--trace");
  command->add_flag("--dry-run", train_.dry_run, "Says what would be started, and starts nothing");
  command->add_flag("--print-config", train_.print_config, "Prints the merged configuration");
  actions_[command] = [this, command] {
    train_.overrides = overrides_of(*command, train_flags);
    return train(train_, arguments_);
  };
}

CLI::Range from_one() { return CLI::Range(1u, std::numeric_limits<std::uint32_t>::max()); }

/// F, I, W and the latency of `--cost`.
std::vector<double> parse_costs(const std::string& text) {
  std::vector<double> costs;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, ',');) {
    double& cost = costs.emplace_back();
    if (parse_number(part, cost) != NumberProblem::none)
      throw UsageError("--cost: '" + part + "' is not a number");
  }
  if (costs.size() != 4)
    throw UsageError("--cost: " + std::to_string(costs.size()) +
                     " numbers instead of 4; allowed: F,I,W,COMM");
  return costs;
}

constexpr KeyFlag plan_flags[] = {
    {"--pipeline_parallel_schedule", "pipeline_parallel.schedule", "Schedule of the configured model"},
};

void CommandLine::add_plan() {
  CLI::App* command =
      app_.add_subcommand("plan", "Shows order, time and memory of a schedule without running anything");
  command->footer(
      "Examples:\n"
      "  weft plan --schedule zbv --ranks 4 --microbatches 8\n"
      "  weft plan --schedule my.csv --format svg\n"
      "  weft plan --config configs/config_tiny_llama.yaml --compare --memory 2GiB\n"
      "  weft plan --config configs/config_tiny_llama.yaml --compare my.csv --costs-from trace.json");
  plan_.config.emplace();
  add_config_options(command, *plan_.config, plan_flags);
  command->add_option("--schedule", plan_.schedule,
                      "A schedule alone: its name (weft's or PyTorch's), or a .csv file");
  command->add_option("--ranks", plan_.ranks, "Pipeline ranks, p")->check(CLI::Range(1, 65535));
  command->add_option("--microbatches", plan_.microbatches, "Micro-batches a step, m")
      ->check(CLI::Range(1, 1 << 24));
  command->add_option("--chunks", plan_.chunks, "Stages per rank, v")->check(from_one());
  command
      ->add_option("--max-in-flight", plan_.max_in_flight, "Most pairs (stage, micro-batch) a rank may hold")
      ->check(from_one());
  command->add_option_function<std::string>(
      "--cost", [this](const std::string& text) { plan_.cost = parse_costs(text); },
      "F,I,W,COMM: durations of forward, both backward halves, and a message, in any one unit; "
      "each 0, or 0.001 to 1e9; default 1,1,1,0");
  command
      ->add_option("--costs-from", plan_.costs_from,
                   "TRACE: the durations that a run of the same model measured (weft train --trace)")
      ->excludes("--cost");
  command->add_option("--cores", plan_.cores, "Cores that the ranks share; default one each")
      ->check(CLI::Range(1, 65536));
  command->add_option("--format", plan_.format, "text, json, csv, svg or chrome")
      ->check(CLI::IsMember({"text", "json", "csv", "svg", "chrome"}))
      ->capture_default_str();
  CLI::Option* compare =
      command
          ->add_option("--compare", plan_.files,
                       "[FILE.csv ...]: all schedules side by side, and the orders in these files")
          ->expected(0, -1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag(
      "--early-gradient", plan_.early_gradient,
      "With --schedule: the gradient of a B leaves after its I half, as in a run, not at its end");
  command->add_option_function<std::string>(
      "--memory", [this](const std::string& text) { plan_.memory = parse_bytes(text); },
      "With --config and --compare: marks the best schedule within so much memory per rank, 2GiB for "
      "example");
  command->add_option("--against", plan_.against,
                      "TRACE: a run's trace to lay beside the plan, whose costs it gives unless --cost or "
                      "--costs-from does");
  command->add_option("--step", plan_.step, "With --against: which step of the trace; default the last")
      ->check(from_one());
  actions_[command] = [this, command, compare] {
    if (command->count("--config") == 0) plan_.config.reset();
    plan_.compare = compare->count() > 0;
    std::erase(plan_.files, "");  // no file
    plan_.overrides = overrides_of(*command, plan_flags);
    print_plan(plan_);
    return 0;
  };
}

void CommandLine::add_check() {
  CLI::App* command = app_.add_subcommand(
      "check", "Says whether a schedule in a .csv file is complete, ordered and free of deadlock");
  command->add_option("file", check_.file, "The .csv file")->required()->check(not_empty());
  command->add_option("--slots", check_.slots, "Also with so many pairs (stage, micro-batch) per rank")
      ->check(from_one());
  actions_[command] = [this] {
    check_schedule_file(check_);
    return 0;
  };
}

void CommandLine::add_launch() {
  CLI::App* command =
      app_.add_subcommand("launch", "Starts any program that embeds weft, one process per rank");
  command->footer("Example:\n  weft launch -n 3 -- ./program its arguments");
  command->add_option("-n,--ranks", launch_.ranks, "Number of ranks")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  command->add_option("program", launch_.program, "The program and its arguments, after --")->required();
  actions_[command] = [this] { return launch_program(launch_); };
}

void CommandLine::add_convert() {
  CLI::App* command =
      app_.add_subcommand("convert", "Llama weights between Hugging Face folders and weft's checkpoints");
  command->add_option("direction", convert_.direction, "hf-to-weft or weft-to-hf")
      ->required()
      ->check(CLI::IsMember({"hf-to-weft", "weft-to-hf"}));
  command->add_option("source", convert_.source, "A folder; of checkpoints: its newest valid one")
      ->required()
      ->check(not_empty());
  command->add_option("target", convert_.target, "A folder that does not exist or is empty")
      ->required()
      ->check(not_empty());
  actions_[command] = [this] {
    convert_weights(convert_);
    return 0;
  };
}

void CommandLine::add_checkpoint() {
  CLI::App* command = app_.add_subcommand("checkpoint", "Lists, verifies, hashes or compares checkpoints");
  command->add_option("action", checkpoint_.action, "list, verify, hash or diff")
      ->required()
      ->check(CLI::IsMember({"list", "verify", "hash", "diff"}));
  command
      ->add_option("path", checkpoint_.paths,
                   "A checkpoint; of a folder of them or of a run: the newest valid one; two for diff")
      ->required()
      ->check(not_empty());
  actions_[command] = [this] { return examine_checkpoint(checkpoint_); };
}

void CommandLine::add_doctor() {
  CLI::App* command = app_.add_subcommand(
      "doctor", "Says what this machine offers: CPU, transports, CUDA, shared memory, limits");
  actions_[command] = [] {
    std::fputs(examine_machine().c_str(), stdout);
    return 0;
  };
}

void CommandLine::add_version() {
  CLI::App* command = app_.add_subcommand("version", "Says which weft this is");
  actions_[command] = [] {
    std::puts(version_line().c_str());
    return 0;
  };
}

std::vector<std::string> CommandLine::commands() const {
  std::vector<std::string> names;
  for (const CLI::App* command : app_.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

std::vector<std::string> long_flags(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

int CommandLine::parse(std::vector<std::string> arguments) {
  arguments_ = arguments;
  if (!arguments.empty()) arguments.erase(arguments.begin());
  if (arguments.empty()) {
    std::fputs(app_.help().c_str(), stderr);
    return 2;
  }
  const bool is_command = !arguments.front().starts_with("-");
  if (is_command) check_command(arguments.front(), commands());
  refuse_empty_values(arguments);
  spell_flags(arguments, long_flags(is_command ? *app_.get_subcommand(arguments.front()) : app_));
  std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
  try {
    app_.parse(std::move(arguments));
  } catch (const CLI::CallForHelp& e) {
    app_.exit(e);
    return 0;
  } catch (const CLI::ParseError& e) {
    throw UsageError(e.what());
  }
  return -1;
}

}  // namespace

int run_command_line(std::vector<std::string> arguments) {
  try {
    CommandLine line;
    int status = line.parse(std::move(arguments));
    if (status < 0) status = line.run();
    if (std::fflush(stdout) != 0) throw Error(std::string("stdout: ") + std::strerror(errno));
    return status;
  } catch (const UsageError& e) {
    std::fprintf(stderr, "weft: %s\n", e.what());
    return 2;
  } catch (const ScheduleError& e) {
    std::fprintf(stderr, "weft: %s\n", e.what());
    return 2;
  } catch (const ConfigError& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "weft: %s\n", e.what());
    return 1;
  }
}

}  // namespace weft
