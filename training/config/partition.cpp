#include "weft/training/config/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "weft/training/model_flops.h"

namespace weft {
namespace {

/// `layers` over `stages`, larger stages first.
std::vector<std::int64_t> spread_evenly(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(stages), stages > 0 ? layers / stages : 0);
  for (std::int64_t i = 0; stages > 0 && i < layers % stages; ++i) ++result[static_cast<std::size_t>(i)];
  return result;
}

}  // namespace

PartitionCost flops_cost(const NanotronConfig& config) {
  const auto sequence = static_cast<double>(config.tokens.sequence_length);
  return {layer_flops_per_token(config.model.model_config, sequence), head_flops_per_token(config.model)};
}

PartitionCost nanotron_cost(const ModelArgs& model) {
  const ModelConfig& c = model.model_config;
  const auto hidden = static_cast<double>(c.hidden_size);
  const double attention =
      4.0 * static_cast<double>(c.num_attention_heads) * static_cast<double>(c.head_size()) * hidden;
  return {attention + 3.0 * static_cast<double>(c.intermediate_size) * hidden,
          static_cast<double>(model.padded_vocab_size()) * hidden};
}

std::vector<std::int64_t> balanced_partition(std::int64_t layers, std::int64_t stages,
                                             const PartitionCost& cost) {
  if (stages == 1) return {layers};
  // All layers cost the same, so a cut is known by the last stage's share; the others are spread evenly.
  const auto cost_of = [&](std::int64_t stage_layers) {
    return static_cast<double>(stage_layers) * cost.layer;
  };
  std::int64_t best = 0;
  double best_largest = 0;
  double best_smallest = 0;
  for (std::int64_t last = 1; last <= layers - (stages - 1); ++last) {
    const std::int64_t others = layers - last;
    const double last_cost = cost_of(last) + cost.head;
    const double largest = std::max(cost_of((others + stages - 2) / (stages - 1)), last_cost);
    const double smallest = std::min(cost_of(others / (stages - 1)), last_cost);
    if (best == 0 || largest < best_largest || (largest == best_largest && smallest > best_smallest)) {
      best = last;
      best_largest = largest;
      best_smallest = smallest;
    }
  }
  std::vector<std::int64_t> result = spread_evenly(layers - best, stages - 1);
  result.push_back(best);
  return result;
}

std::vector<std::int64_t> nanotron_partition(std::int64_t layers, std::int64_t stages,
                                             const PartitionCost& cost) {
  std::vector<std::int64_t> result(static_cast<std::size_t>(stages), 0);
  const double total = static_cast<double>(layers) * cost.layer + cost.head;
  std::int64_t stage = 0;
  double so_far = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    ++result[static_cast<std::size_t>(stage)];
    so_far += cost.layer;
    const double full = total * static_cast<double>(stage + 1) / static_cast<double>(stages);
    if (so_far > full && stage < stages - 1) ++stage;
  }
  return result;
}

std::vector<std::int64_t> layers_per_stage(const NanotronConfig& config, std::int64_t stages) {
  return layers_per_stage(config, stages, ConfigSources{});
}

std::vector<std::int64_t> layers_per_stage(const NanotronConfig& config, std::int64_t stages,
                                           const ConfigSources& sources) {
  const std::int64_t layers = config.model.model_config.num_hidden_layers;
  const PartitionConfig& partition = config.pipeline_parallel.partition;
  const std::string partition_path = "pipeline_parallel.partition";
  const auto wrong = [&](const std::string& problem, const std::string& allowed) {
    return config_error(sources.find(partition_path), partition_path, problem, allowed);
  };

  std::vector<std::int64_t> result;
  if (partition.rule == PartitionConfig::Rule::given) {
    result = partition.layers;
    const auto given = static_cast<std::int64_t>(result.size());
    if (given != stages) {
      throw wrong(fmt::format("names {} stages, there are {} (pp x chunks)", given, stages),
                  fmt::format("{} numbers", stages));
    }
    std::int64_t sum = 0;
    for (const std::int64_t part : result) sum += std::min(part, layers + 1);
    if (sum != layers) {
      throw wrong(fmt::format("[{}] does not sum to the model's {} layers", fmt::join(result, ", "), layers),
                  fmt::format("{} numbers with the sum {}", stages, layers));
    }
  } else {
    if (stages > layers) {
      const std::string path = "parallelism.pp";
      throw config_error(
          sources.find(path), path,
          fmt::format("{} ranks make {} stages, more than the {} layers of the model", config.parallelism.pp,
                      stages, layers),
          fmt::format("1 to {}", std::max<std::int64_t>(1, layers * config.parallelism.pp / stages)));
    }
    result = partition.rule == PartitionConfig::Rule::nanotron
                 ? nanotron_partition(layers, stages, nanotron_cost(config.model))
                 : balanced_partition(layers, stages, flops_cost(config));
  }
  const auto empty = std::find(result.begin(), result.end(), 0);
  if (empty != result.end()) {
    throw wrong(
        fmt::format("[{}] leaves stage {} without a layer", fmt::join(result, ", "), empty - result.begin()),
        "auto, or a list with at least one layer per stage");
  }
  return result;
}

}  // namespace weft
