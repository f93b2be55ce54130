#include "weft/launch/model_plan.h"

#include <fmt/core.h>

#include <functional>
#include <numeric>
#include <string_view>

#include "weft/actors/pipeline_plan.h"
#include "weft/base/error.h"
#include "weft/training/config/partition.h"
#include "weft/training/configured_schedule.h"
#include "weft/training/llama.h"
#include "weft/training/threads_per_rank.h"

namespace weft {
namespace {

Nanoseconds scaled(Nanoseconds cost, double factor) {
  return static_cast<Nanoseconds>(static_cast<double>(cost) * factor);
}

OpCosts scaled(const OpCosts& costs, double factor) {
  return {scaled(costs.forward, factor), scaled(costs.input, factor), scaled(costs.weight, factor),
          scaled(costs.update, factor)};
}

/// FLOPs of the stages.
std::vector<double> stage_flops(const PartitionCost& cost, const std::vector<std::int64_t>& layers) {
  std::vector<double> flops;
  for (std::size_t stage = 0; stage < layers.size(); ++stage)
    flops.push_back(cost.layer * static_cast<double>(layers[stage]) +
                    (stage + 1 == layers.size() ? cost.head : 0));
  return flops;
}

std::vector<OpCosts> stage_costs(const NanotronConfig& config, const std::vector<std::int64_t>& layers,
                                 const OpCosts& even) {
  const std::vector<double> flops = stage_flops(flops_cost(config), layers);
  const double rank_share = std::accumulate(flops.begin(), flops.end(), 0.0) / config.parallelism.pp;
  std::vector<OpCosts> costs;
  for (const double one : flops) costs.push_back(scaled(even, one / rank_share));
  return costs;
}

/// The layers of the stages of another run of the same model: as configured if that fits its number of
/// stages.
std::vector<std::int64_t> layers_of_run(NanotronConfig config, const MeasuredCosts& run) {
  if (run.stages.size() > static_cast<std::size_t>(config.model.model_config.num_hidden_layers))
    throw ScheduleError(fmt::format("the trace has {} stages, the model has {} layers", run.stages.size(),
                                    config.model.model_config.num_hidden_layers));
  PartitionConfig& partition = config.pipeline_parallel.partition;
  if (partition.rule == PartitionConfig::Rule::given && partition.layers.size() != run.stages.size())
    partition = {};
  return layers_per_stage(config, run.rank_of);
}

void add(OpCosts& sum, const OpCosts& more) {
  sum.forward += more.forward;
  sum.input += more.input;
  sum.weight += more.weight;
  sum.update += more.update;
}

std::vector<OpCosts> measured_costs(const NanotronConfig& config, const std::vector<std::int64_t>& layers,
                                    const MeasuredCosts& measured) {
  const std::vector<std::int64_t> run = layers_of_run(config, measured);
  if (run == layers) return measured.stages;
  const PartitionCost cost = flops_cost(config);
  const std::vector<double> run_flops = stage_flops(cost, run);
  std::vector<OpCosts> layer_costs;
  for (std::size_t stage = 0; stage < run.size(); ++stage)
    layer_costs.insert(layer_costs.end(), static_cast<std::size_t>(run[stage]),
                       scaled(measured.stages[stage], cost.layer / run_flops[stage]));
  std::vector<OpCosts> costs(layers.size(), OpCosts{0, 0, 0, 0});
  std::size_t layer = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage)
    for (std::int64_t i = 0; i < layers[stage]; ++i) add(costs[stage], layer_costs[layer++]);
  add(costs.back(), scaled(measured.stages.back(), cost.head / run_flops.back()));
  return costs;
}

std::vector<std::uint64_t> border_bytes(const PipelinePlan& plan) {
  std::vector<std::uint64_t> bytes;
  for (const StagePlan& stage : plan.stages) {
    std::uint64_t sum = 0;
    for (const TensorSpec& tensor : stage.outputs) sum += tensor.bytes();
    bytes.push_back(sum);
  }
  return bytes;
}

std::vector<MemoryColumn> memory_columns(const std::vector<RankMemory>& ranks) {
  const std::pair<std::string_view, std::uint64_t RankMemory::*> parts[] = {
      {"parameters", &RankMemory::parameters},
      {"gradients", &RankMemory::gradients},
      {"packed weights", &RankMemory::packed_weights},
      {"optimizer", &RankMemory::optimizer},
      {"activation slots", &RankMemory::activation_slots},
      {"weight-work slots", &RankMemory::weight_slots},
      {"messages", &RankMemory::messages},
      {"workspace", &RankMemory::workspace}};
  std::vector<MemoryColumn> columns;
  for (const auto& [name, part] : parts) {
    MemoryColumn& column = columns.emplace_back(MemoryColumn{std::string(name), {}});
    for (const RankMemory& rank : ranks) column.bytes.push_back(rank.*part);
  }
  return columns;
}

}  // namespace

SimulationSettings PlanCosts::settings() const {
  SimulationSettings settings = uniform;
  settings.cores = cores;
  settings.early_gradient = early_gradient;
  settings.record = record;
  if (!measured) return settings;
  settings.stages = measured->stages;
  settings.link.latency = measured->latency;
  settings.early_gradient = true;
  return settings;
}

PipelinePlan pipeline_of_model(const NanotronConfig& config, const Schedule& schedule) {
  const std::vector<std::int64_t> layers = layers_per_stage(config, schedule.rank_of);
  const int threads = threads_per_rank(config, schedule.ranks);  // all on this host
  return plan_pipeline(schedule, Llama(config).stages({layers.begin(), layers.end()}, threads),
                       configured_optimizer(config)->factory(threads));
}

Plan plan_of_model(const NanotronConfig& config, const PlanCosts& costs, const ConfigSources& sources) {
  Schedule schedule = configured_schedule(config, sources);
  const std::vector<std::int64_t> layers = layers_per_stage(config, schedule.rank_of, sources);

  SimulationSettings settings = costs.settings();
  settings.stages = costs.measured ? measured_costs(config, layers, *costs.measured)
                                   : stage_costs(config, layers, settings.stages.front());
  settings.early_gradient = true;
  const PipelinePlan pipeline = pipeline_of_model(config, schedule);
  settings.border_bytes = border_bytes(pipeline);
  Plan plan = make_plan(std::move(schedule), settings);
  plan.layers = layers;
  std::vector<RankMemory> ranks;
  for (std::uint32_t rank = 0; rank < plan.schedule.ranks; ++rank) ranks.push_back(pipeline.memory(rank));
  plan.memory = memory_columns(ranks);
  for (const RankMemory& rank : ranks)
    if (!plan.schedule.dynamic) plan.peak_activation_bytes.push_back(rank.peak_activation);
  return plan;
}

}  // namespace weft
