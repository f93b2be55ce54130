#pragma once
// Which stage gets how many layers. The embedding is on the first stage, the head and the loss on the last.
#include <cstdint>
#include <span>
#include <vector>

#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"

namespace weft {

/// Relative cost of one layer and of the head, in any unit.
struct PartitionCost {
  double layer = 1;
  double head = 0;
};

/// Model FLOPs per token, forward (llama_flops.h).
[[nodiscard]] PartitionCost flops_cost(const NanotronConfig& config);
/// Nanotron's estimate: 4 heads d_head hidden + 3 ffn hidden a layer, vocabulary x hidden for the head.
[[nodiscard]] PartitionCost nanotron_cost(const ModelArgs& model);

/// At least one layer per stage; first the smallest largest rank, since a step cannot be shorter than the
/// work of its fullest rank, then, inside every rank, the smallest largest stage. Among equals the most even
/// cut, larger ranks and stages first. `rank_of` is the rank of each stage; layers >= stages >= 1.
/// result[stage] = layers.
[[nodiscard]] std::vector<std::int64_t> balanced_partition(std::int64_t layers,
                                                           std::span<const std::uint32_t> rank_of,
                                                           const PartitionCost& cost);

/// Nanotron's rule: blocks are placed in order; stage i is full once the cost so far exceeds (i + 1) / stages
/// of the total. A stage may get no layer; the head, which Nanotron may place before the last stage, counts
/// as cost only. result[stage] = layers.
[[nodiscard]] std::vector<std::int64_t> nanotron_partition(std::int64_t layers, std::int64_t stages,
                                                           const PartitionCost& cost);

/// Layers per stage as configured, for stages that lie on these ranks. Throws ConfigError, naming the key and
/// its place, when there are more stages than layers, when a given list has the wrong length or sum, or when
/// a stage would hold no layer (as Nanotron's rule does with a large vocabulary).
[[nodiscard]] std::vector<std::int64_t> layers_per_stage(const NanotronConfig& config,
                                                         std::span<const std::uint32_t> rank_of,
                                                         const ConfigSources& sources = {});

}  // namespace weft
