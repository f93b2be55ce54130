#include "weft/launch/model_plan.h"

#include <functional>
#include <string_view>

#include "weft/actors/pipeline_plan.h"
#include "weft/training/config/partition.h"
#include "weft/training/configured_schedule.h"
#include "weft/training/llama.h"

namespace weft {
namespace {

Nanoseconds scaled(Nanoseconds cost, double factor) {
  return static_cast<Nanoseconds>(static_cast<double>(cost) * factor);
}

/// Costs of the stages by their FLOPs, from those of an even share.
std::vector<OpCosts> stage_costs(const NanotronConfig& config, const std::vector<std::int64_t>& layers,
                                 const OpCosts& even) {
  const PartitionCost cost = flops_cost(config);
  std::vector<double> flops;
  double sum = 0;
  for (std::size_t stage = 0; stage < layers.size(); ++stage) {
    flops.push_back(cost.layer * static_cast<double>(layers[stage]) +
                    (stage + 1 == layers.size() ? cost.head : 0));
    sum += flops.back();
  }
  std::vector<OpCosts> costs;
  for (const double one : flops) {
    const double share = one / sum * static_cast<double>(config.parallelism.pp);
    costs.push_back({scaled(even.forward, share), scaled(even.input, share), scaled(even.weight, share), 0});
  }
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

std::vector<MemoryColumn> memory_columns(const PipelinePlan& plan) {
  const std::pair<std::string_view, std::uint64_t RankMemory::*> parts[] = {
      {"weights and gradients", &RankMemory::state},
      {"optimizer", &RankMemory::optimizer},
      {"activation slots", &RankMemory::activation_slots},
      {"weight-work slots", &RankMemory::weight_slots},
      {"messages", &RankMemory::messages},
      {"workspace", &RankMemory::workspace}};
  std::vector<MemoryColumn> columns;
  for (const auto& [name, part] : parts) {
    MemoryColumn column{std::string(name), {}};
    for (std::uint32_t rank = 0; rank < plan.schedule.ranks; ++rank)
      column.bytes.push_back(plan.memory(rank).*part);
    columns.push_back(std::move(column));
  }
  return columns;
}

}  // namespace

Plan plan_of_model(const NanotronConfig& config, const std::vector<double>& cost) {
  Schedule schedule = configured_schedule(config);
  const std::vector<std::int64_t> layers = layers_per_stage(config, schedule.stage_count);

  SimulationSettings settings =
      cost.empty() ? uniform_costs(1, 1, 1, 0) : uniform_costs(cost[0], cost[1], cost[2], cost[3]);
  settings.stages = stage_costs(config, layers, settings.stages.front());
  const int threads = static_cast<int>(config.pipeline_parallel.threads.value_or(1));
  const PipelinePlan pipeline =
      plan_pipeline(schedule, Llama(config).stages({layers.begin(), layers.end()}, threads),
                    configured_optimizer(config)->factory(threads));
  settings.border_bytes = border_bytes(pipeline);
  Plan plan = make_plan(std::move(schedule), settings);
  plan.memory = memory_columns(pipeline);
  return plan;
}

}  // namespace weft
