#include "weft/training/trainer.h"

#include <fmt/core.h>

#include "weft/actors/rank_process.h"
#include "weft/actors/rank_threads.h"
#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/base/files/named_file.h"
#include "weft/model/ops/cpu/cpu_level.h"
#include "weft/training/config/checks.h"
#include "weft/training/config/load.h"
#include "weft/training/config/partition.h"
#include "weft/training/configured_schedule.h"
#include "weft/training/data/training_data.h"
#include "weft/training/rank_trainer.h"
#include "weft/training/start_checks.h"
#include "weft/training/threads_per_rank.h"

namespace weft {

void check_training(const NanotronConfig& config, const TrainerOptions& options) {
  check_config(config, options.sources);
  const Schedule schedule = configured_schedule(config, options.sources);
  static_cast<void>(layers_per_stage(config, schedule.rank_of, options.sources));
  check_start(config, {explicit_run_folder(config, options.run_dir, options.resume), options.resume},
              options.sources);
  check_training_data(config, options.sources);
  if (!options.trace) return;
  if (options.trace_steps.first > static_cast<std::uint64_t>(config.tokens.train_steps))
    throw ConfigError(fmt::format("--trace-steps: the first step to trace is {}, but the run has {}",
                                  options.trace_steps.first, config.tokens.train_steps));
  const std::filesystem::path trace = *options.trace;
  try {
    if (trace.has_parent_path() || !trace.has_filename() || trace == "." || trace == "..")
      check_named_file(trace);
  } catch (const CheckpointError& e) {
    throw ConfigError("--trace: " + std::string(e.what()));
  }
}

Trainer::Trainer(const NanotronConfig& config, const Llama& model, const OptimizerDescription& optimizer,
                 TrainerOptions options)
    : config_(config), model_(model), optimizer_(optimizer), options_(std::move(options)) {
  options_.run_dir = explicit_run_folder(config, options_.run_dir, options_.resume);
}

RunResult Trainer::fit() {
  check_training(config_, options_);
  const auto environment = rank_environment();
  Schedule schedule = configured_schedule(config_, options_.sources);
  if (environment && environment->mesh.pipeline_ranks() != schedule.ranks)
    throw ConfigError(
        fmt::format("parallelism.pp: {} ranks are configured, {} were launched; allowed: the same number",
                    schedule.ranks, environment->mesh.pipeline_ranks()));
  std::vector<std::uint32_t> layers;
  for (const std::int64_t n : layers_per_stage(config_, schedule.rank_of))
    layers.push_back(static_cast<std::uint32_t>(n));
  const int threads = threads_per_rank(config_, environment ? environment->local_world_size : schedule.ranks);
  const StageFactory stages = model_.stages(layers, threads);
  const OptimizerFactory optimizer = optimizer_.factory(threads);
  const PipelinePlan plan = plan_pipeline(std::move(schedule), stages, optimizer);
  TrainingSetup setup{
      config_, options_, plan, stages, optimizer, options_.stop_requested, {}, {}, environment.has_value()};

  if (environment) {
    RankProcess process(*environment, {{"CPU level", std::string(cpu::name(cpu::cpu_level()))},
                                       {"configuration", to_yaml(config_)}});
    setup.stop_requested = [&] {
      return process.stop_requested() || (options_.stop_requested && options_.stop_requested());
    };
    setup.tell_failure = [&](std::uint32_t, std::exception_ptr error) { process.report_failure(error); };
    setup.tell_saving = [&](bool saving) { saving ? process.begin_save() : process.end_save(); };
    std::optional<RankTrainer> trainer;  // ends after a failure was told: it may wait for a slow disk
    try {
      trainer.emplace(setup, process.rank(), process.transport(), process.spin());
      const LoopWatch watch = process.watch(trainer->rank().loop());
      trainer->rank().actor().observe(&process);
      RunResult result = trainer->run();
      process.finish();
      return result;
    } catch (...) {
      throw Error(process.report_failure(std::current_exception()));
    }
  }

  // All ranks as threads. Their memory goes only after all have ended: a message may still be read by its
  // receiver.
  RankThreads ranks(plan.schedule.ranks);
  std::vector<std::unique_ptr<RankTrainer>> trainers(plan.schedule.ranks);
  RunResult result;
  const Nanoseconds spin = plan.schedule.ranks > usable_cores() ? 0 : 20'000;
  setup.tell_failure = [&](std::uint32_t rank, std::exception_ptr error) { ranks.fail(rank, error); };
  ranks.run([&](std::uint32_t rank, Transport& transport) {
    trainers[rank] = std::make_unique<RankTrainer>(setup, rank, transport, spin);
    const LoopWatch watch = ranks.watch(rank, trainers[rank]->rank().loop());
    const RunResult mine = trainers[rank]->run();
    transport.close(now_ns() + 5'000'000'000);
    if (rank == 0) result = mine;
  });
  return result;
}

}  // namespace weft
