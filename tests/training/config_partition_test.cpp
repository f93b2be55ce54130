#include "weft/training/config/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "weft/scheduling/placement.h"

namespace weft {
namespace {

using Layers = std::vector<std::int64_t>;

/// Calls `visit` with every way to cut `layers` into `stages` parts of at least one.
void every_cut(std::int64_t layers, std::int64_t stages, Layers& cut,
               const std::function<void(const Layers&)>& visit) {
  if (stages == 1) {
    cut.push_back(layers);
    visit(cut);
    cut.pop_back();
    return;
  }
  for (std::int64_t first = 1; first <= layers - (stages - 1); ++first) {
    cut.push_back(first);
    every_cut(layers - first, stages - 1, cut, visit);
    cut.pop_back();
  }
}

std::vector<std::uint32_t> one_stage_per_rank(std::int64_t ranks) {
  std::vector<std::uint32_t> rank_of(static_cast<std::size_t>(ranks));
  std::iota(rank_of.begin(), rank_of.end(), 0u);
  return rank_of;
}

std::vector<std::uint32_t> ranks_of(std::uint32_t ranks, std::uint32_t chunks, Placement placement) {
  std::vector<std::uint32_t> result;
  for (std::uint32_t stage = 0; stage < ranks * chunks; ++stage)
    result.push_back(rank_of(stage, ranks, placement));
  return result;
}

/// Costs of the ranks and, below, of one rank's stages.
std::vector<double> rank_costs(const Layers& cut, const std::vector<std::uint32_t>& rank_of,
                               const PartitionCost& cost) {
  std::vector<double> costs(*std::max_element(rank_of.begin(), rank_of.end()) + 1);
  for (std::size_t i = 0; i < cut.size(); ++i) costs[rank_of[i]] += static_cast<double>(cut[i]) * cost.layer;
  costs[rank_of.back()] += cost.head;
  return costs;
}
double largest_stage(const Layers& cut, const PartitionCost& cost) {
  const double last = static_cast<double>(cut.back()) * cost.layer + cost.head;
  return std::max(last, static_cast<double>(*std::max_element(cut.begin(), cut.end())) * cost.layer);
}
double largest(const std::vector<double>& costs) { return *std::max_element(costs.begin(), costs.end()); }

void expect_best_of_all_cuts(std::int64_t layers, const std::vector<std::uint32_t>& rank_of,
                             const PartitionCost& cost) {
  const Layers found = balanced_partition(layers, rank_of, cost);
  ASSERT_EQ(found.size(), rank_of.size());
  ASSERT_EQ(std::accumulate(found.begin(), found.end(), std::int64_t{0}), layers);
  ASSERT_GE(*std::min_element(found.begin(), found.end()), 1);
  const std::vector<double> costs = rank_costs(found, rank_of, cost);
  Layers cut;
  every_cut(layers, static_cast<std::int64_t>(rank_of.size()), cut, [&](const Layers& other) {
    ASSERT_LE(largest(costs), largest(rank_costs(other, rank_of, cost)));
  });
  for (std::uint32_t rank = 0; rank < costs.size(); ++rank) {
    Layers mine;
    for (std::size_t i = 0; i < found.size(); ++i)
      if (rank_of[i] == rank) mine.push_back(found[i]);
    const PartitionCost mine_cost{cost.layer, rank == rank_of.back() ? cost.head : 0};
    const std::int64_t sum = std::accumulate(mine.begin(), mine.end(), std::int64_t{0});
    every_cut(sum, static_cast<std::int64_t>(mine.size()), cut, [&](const Layers& other) {
      ASSERT_LE(largest_stage(mine, mine_cost), largest_stage(other, mine_cost)) << "rank " << rank;
    });
  }
}

TEST(BalancedPartition, HasTheSmallestLargestRankAndStageOfAllCuts) {
  for (std::int64_t layers = 1; layers <= 10; ++layers)
    for (const double head : {0.0, 0.4, 1.0, 2.5, 7.0, 100.0}) {
      SCOPED_TRACE(testing::Message() << layers << " layers, head " << head);
      for (std::int64_t stages = 1; stages <= layers; ++stages)
        expect_best_of_all_cuts(layers, one_stage_per_rank(stages), {1.0, head});
      for (const Placement placement : {Placement::loop, Placement::fold})
        for (const auto& [ranks, chunks] : {std::pair{2u, 2u}, {3u, 2u}, {2u, 3u}, {1u, 4u}})
          if (ranks * chunks <= layers)
            expect_best_of_all_cuts(layers, ranks_of(ranks, chunks, placement), {1.0, head});
    }
}

TEST(BalancedPartition, IsEvenWithoutAHead) {
  EXPECT_EQ(balanced_partition(8, one_stage_per_rank(2), {1, 0}), (Layers{4, 4}));
  EXPECT_EQ(balanced_partition(10, one_stage_per_rank(4), {1, 0}), (Layers{3, 3, 2, 2}));
  EXPECT_EQ(balanced_partition(9, one_stage_per_rank(4), {1, 0.5}), (Layers{3, 2, 2, 2}));
  EXPECT_EQ(balanced_partition(10, ranks_of(2, 2, Placement::fold), {1, 0}), (Layers{3, 3, 2, 2}));
}

TEST(BalancedPartition, SparesTheRankThatHasTheHead) {
  EXPECT_EQ(balanced_partition(8, ranks_of(2, 2, Placement::loop), {1, 1.35}), (Layers{3, 2, 2, 1}));
  EXPECT_EQ(balanced_partition(8, ranks_of(2, 2, Placement::fold), {1, 1.35}), (Layers{2, 3, 2, 1}));
  EXPECT_EQ(balanced_partition(65536, one_stage_per_rank(65535), {1, 0})[0], 2) << "in no time";
}

ModelArgs model(std::uint32_t layers, std::uint32_t hidden, std::uint32_t ffn, std::uint32_t vocab) {
  ModelArgs args;
  args.model_config.num_hidden_layers = layers;
  args.model_config.hidden_size = hidden;
  args.model_config.intermediate_size = ffn;
  args.model_config.vocab_size = vocab;
  args.model_config.num_attention_heads = 8;
  args.model_config.num_key_value_heads = 2;
  return args;
}

TEST(NanotronPartition, FollowsNanotronsTable) {
  struct Case {
    ModelArgs args;
    std::vector<Layers> expected;
  };
  const std::vector<Case> cases = {
      {model(28, 2048, 11008, 128256), {{16, 12}, {11, 10, 7}, {8, 8, 8, 4}, {4, 4, 4, 4, 4, 4, 4, 0}}},
      {model(10, 32, 128, 256), {{6, 4}, {4, 4, 2}, {3, 3, 2, 2}, {2, 1, 1, 2, 1, 1, 2, 0}}},
      {model(14, 1024, 4096, 49152), {{9, 5}, {6, 6, 2}, {5, 4, 4, 1}}},
      {model(32, 4096, 11008, 32000), {{17, 15}, {11, 11, 10}, {9, 8, 8, 7}, {5, 4, 4, 4, 4, 4, 4, 3}}},
      {model(30, 576, 1536, 49152), {{19, 11}, {13, 12, 5}, {10, 9, 9, 2}}},
      {model(2, 16, 64, 256), {{2, 0}, {2, 0, 0}, {1, 1, 0, 0}}},
  };
  for (const Case& c : cases) {
    for (const Layers& expected : c.expected) {
      const auto stages = static_cast<std::int64_t>(expected.size());
      EXPECT_EQ(nanotron_partition(c.args.model_config.num_hidden_layers, stages, nanotron_cost(c.args)),
                expected);
    }
  }
}

TEST(Partition, IsRefusedWhereNanotronsRuleLeavesAStageEmpty) {
  NanotronConfig config;
  config.model = model(10, 32, 128, 256);
  config.pipeline_parallel.partition.rule = PartitionConfig::Rule::nanotron;
  EXPECT_EQ(layers_per_stage(config, one_stage_per_rank(4)), (Layers{3, 3, 2, 2}));
  EXPECT_THROW((void)layers_per_stage(config, one_stage_per_rank(8)), ConfigError);
}

TEST(Partition, GivesALargeHeadFewerLayers) {
  NanotronConfig config;
  config.tokens.sequence_length = 256;
  config.model = model(8, 512, 1408, 8192);
  EXPECT_EQ(layers_per_stage(config, one_stage_per_rank(1)), (Layers{8}));
  const Layers two = layers_per_stage(config, one_stage_per_rank(2));
  EXPECT_EQ(two, (Layers{5, 3}));
}

}  // namespace
}  // namespace weft
