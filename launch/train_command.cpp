#include "weft/launch/train_command.h"

#include <fmt/format.h>
#include <signal.h>

#include <atomic>
#include <cstdio>
#include <typeinfo>

#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/launch/hosts/handed_config.h"
#include "weft/launch/machine.h"
#include "weft/launch/memory_check.h"
#include "weft/launch/model_plan.h"
#include "weft/launch/supervise.h"
#include "weft/training/config/load.h"
#include "weft/training/config/partition.h"
#include "weft/training/config/yaml_reader.h"
#include "weft/training/configured_schedule.h"
#include "weft/training/given_weights.h"
#include "weft/training/llama.h"
#include "weft/training/trainer.h"
#include "weft/transport/rendezvous/rank_environment.h"

namespace weft {
namespace {

std::atomic<int> told_to_stop{0};  // the signal's number
std::atomic<std::int64_t> told_at{0};
std::atomic<int> repeats{0};
std::atomic<bool> told_to_save{false};

/// Finishes the step and saves; asked again, ends the process. `timeout` sends one wish twice, to the process
/// and to its group, so a second signal counts after a second only.
void take_stop_signal(int number) {
  if (told_to_stop == 0) {
    told_at = now_ns();
    told_to_stop = number;
  } else if (++repeats >= 2 || now_ns() - told_at > 1'000'000'000) {
    signal(number, SIG_DFL);
    raise(number);
  }
}

void on_signal(int number, void (*action)(int), int flags) {
  struct sigaction handling {};
  handling.sa_handler = action;
  handling.sa_flags = flags;
  sigaction(number, &handling, nullptr);
}

// A reader of the output that goes away (head, a closed terminal) does not end a training: its lines are
// dropped.
void ignore_lost_readers() { on_signal(SIGPIPE, SIG_IGN, 0); }

void ignore_usr2() { on_signal(SIGUSR2, SIG_IGN, 0); }

void save_on_usr1() {
  on_signal(
      SIGUSR1, [](int) { told_to_save = true; }, SA_RESTART);
}

void stop_on_signals() {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    sigaction(number, nullptr, &now);
    if (number == SIGHUP && now.sa_handler == SIG_IGN) continue;  // nohup
    on_signal(number, take_stop_signal, SA_RESTART);
  }
}

TrainerOptions options_of(const TrainArguments& arguments, const LoadedConfig& loaded) {
  TrainerOptions options;
  options.run_dir = arguments.run_dir;
  options.resume = arguments.resume;
  options.trace = arguments.trace;
  if (arguments.trace_steps) options.trace_steps = *arguments.trace_steps;
  options.sources = loaded.sources;
  options.stop_requested = [] { return told_to_stop != 0; };
  options.save_requested = [] { return told_to_save.exchange(false); };
  return options;
}

void run_trainer(const NanotronConfig& config, TrainerOptions options) {
  const Llama model(config);
  const auto optimizer = configured_optimizer(config);
  Trainer trainer(config, model, *optimizer, std::move(options));
  trainer.fit();
}

void show_start(const NanotronConfig& config, const Schedule& schedule,
                std::vector<std::string> command_line) {
  const std::vector<std::int64_t> layers = layers_per_stage(config, schedule.rank_of);
  std::erase_if(command_line,
                [](const std::string& one) { return one == "--dry-run" || one == "--dry_run"; });
  const bool threads = config.pipeline_parallel.transport == TransportChoice::inproc;
  fmt::print("{} {}: schedule {}, {} stages, {} micro-batches a step, {} steps\n", schedule.ranks,
             threads ? "ranks as threads of one process" : "processes on this host", schedule.name,
             schedule.stage_count, schedule.microbatches, config.tokens.train_steps);
  for (std::uint32_t rank = 0; rank < schedule.ranks; ++rank) {
    fmt::print("rank {}: stage", rank);
    for (const std::uint16_t stage : schedule.stages_of[rank])
      fmt::print(" {} ({} layer{})", stage, layers[stage], layers[stage] == 1 ? "" : "s");
    if (!threads)
      fmt::print(", WEFT_RANK={} WEFT_WORLD_SIZE={} {}", rank, schedule.ranks, fmt::join(command_line, " "));
    fmt::print("\n");
  }
}

int train_as_rank(const LoadedConfig& loaded, const TrainArguments& arguments) {
  ignore_lost_readers();
  save_on_usr1();
  try {
    run_trainer(loaded.config, options_of(arguments, loaded));
    return 0;
  } catch (const Error& e) {
    // The trainer throws a plain Error for what the launcher has heard already and will say itself.
    if (typeid(e) == typeid(Error)) return 1;
    throw;
  }
}

int train_in_threads(const LoadedConfig& loaded, const TrainArguments& arguments) {
  stop_on_signals();
  ignore_usr2();
  ignore_lost_readers();
  save_on_usr1();
  run_trainer(loaded.config, options_of(arguments, loaded));
  return told_to_stop == 0 ? 0 : 128 + told_to_stop;
}

int train_in_processes(const Schedule& schedule, const std::string& config_text,
                       const std::vector<std::string>& command_line) {
  Job job;
  job.config = config_text;
  job.program = "/proc/self/exe";
  job.arguments = command_line;
  job.mesh = Mesh(schedule.ranks, 1);
  job.stop_by = StopBy::message;
  job.must_join = true;
  job.heartbeat_limit = heartbeat_limit();
  job.speaker = schedule.rank_of.back();
  return supervise(job).exit_status();
}

}  // namespace

int train(const TrainArguments& arguments, const std::vector<std::string>& command_line) {
  const std::optional<std::string> handed = handed_config();
  const std::string text = handed ? *handed : read_config_file(arguments.config);
  const LoadedConfig loaded = parse_config(text, arguments.config, arguments.overrides,
                                           resumed_architecture({arguments.run_dir, arguments.resume}));
  const NanotronConfig& config = loaded.config;
  if (arguments.print_config) {
    fmt::print("{}", to_yaml(config));
    return 0;
  }
  log::start(config.logging.log_level, "");
  const bool threads = config.pipeline_parallel.transport == TransportChoice::inproc;
  if (!threads && rank_environment()) return train_as_rank(loaded, arguments);
  const Schedule schedule = configured_schedule(config, loaded.sources);
  check_training(config, options_of(arguments, loaded));
  check_memory(pipeline_of_model(config, schedule), config, usable_memory(), loaded.sources);
  for (const std::string& notice : loaded.notices) log::warning(notice);
  if (!schedule.remark.empty()) log::info(schedule.remark);
  if (arguments.dry_run) {
    show_start(config, schedule, command_line);
    return 0;
  }
  return threads ? train_in_threads(loaded, arguments) : train_in_processes(schedule, text, command_line);
}

}  // namespace weft
