#include "weft/training/config/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "weft/model/llama_flops.h"

namespace weft {
namespace {

/// A rank or a stage.
struct Bin {
  std::int64_t layers = 0;
  bool has_head = false;

  [[nodiscard]] double cost(const PartitionCost& unit) const {
    return static_cast<double>(layers) * unit.layer + (has_head ? unit.head : 0);
  }
};

/// Adds `layers` to the bins, one after the other to the one that costs least with it, the first of equals.
/// Since all layers cost the same, nothing has a smaller largest bin.
void fill(std::vector<Bin>& bins, std::int64_t layers, const PartitionCost& unit) {
  using Offer = std::pair<double, std::size_t>;  // cost with one layer more, bin
  std::priority_queue<Offer, std::vector<Offer>, std::greater<>> offers;
  for (std::size_t i = 0; i < bins.size(); ++i) offers.emplace(bins[i].cost(unit) + unit.layer, i);
  for (; layers > 0; --layers) {
    const std::size_t bin = offers.top().second;
    offers.pop();
    ++bins[bin].layers;
    offers.emplace(bins[bin].cost(unit) + unit.layer, bin);
  }
}

}  // namespace

PartitionCost flops_cost(const NanotronConfig& config) {
  const auto sequence = static_cast<double>(config.tokens.sequence_length);
  const LlamaArchitecture model = config.model.architecture();
  return {layer_flops_per_token(model, sequence), head_flops_per_token(model)};
}

PartitionCost nanotron_cost(const ModelArgs& model) {
  const LlamaArchitecture& c = model.model_config;
  const auto hidden = static_cast<double>(c.hidden_size);
  const double attention = 4.0 * static_cast<double>(c.query_columns()) * hidden;
  return {attention + 3.0 * static_cast<double>(c.intermediate_size) * hidden,
          static_cast<double>(model.padded_vocab_size()) * hidden};
}

std::vector<std::int64_t> balanced_partition(std::int64_t layers, std::span<const std::uint32_t> rank_of,
                                             const PartitionCost& cost) {
  std::vector<std::vector<std::size_t>> stages_of(*std::max_element(rank_of.begin(), rank_of.end()) + 1);
  for (std::size_t stage = 0; stage < rank_of.size(); ++stage) stages_of[rank_of[stage]].push_back(stage);

  std::vector<Bin> ranks;
  for (const auto& stages : stages_of) ranks.push_back({static_cast<std::int64_t>(stages.size()), false});
  ranks[rank_of.back()].has_head = true;
  fill(ranks, layers - static_cast<std::int64_t>(rank_of.size()), cost);

  std::vector<std::int64_t> result(rank_of.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    std::vector<Bin> stages(stages_of[rank].size(), Bin{1, false});
    if (ranks[rank].has_head) stages.back().has_head = true;
    fill(stages, ranks[rank].layers - static_cast<std::int64_t>(stages.size()), cost);
    for (std::size_t i = 0; i < stages.size(); ++i) result[stages_of[rank][i]] = stages[i].layers;
  }
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

std::vector<std::int64_t> layers_per_stage(const NanotronConfig& config,
                                           std::span<const std::uint32_t> rank_of,
                                           const ConfigSources& sources) {
  const auto stages = static_cast<std::int64_t>(rank_of.size());
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
                 : balanced_partition(layers, rank_of, flops_cost(config));
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
