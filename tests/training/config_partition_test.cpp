#include "weft/training/config/partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>

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

double largest_cost(const Layers& cut, const PartitionCost& cost) {
  double largest = 0;
  for (std::size_t i = 0; i < cut.size(); ++i) {
    const double head = i + 1 == cut.size() ? cost.head : 0;
    largest = std::max(largest, static_cast<double>(cut[i]) * cost.layer + head);
  }
  return largest;
}

TEST(BalancedPartition, HasTheSmallestLargestStageOfAllCuts) {
  for (std::int64_t layers = 1; layers <= 10; ++layers) {
    for (std::int64_t stages = 1; stages <= layers; ++stages) {
      for (const double head : {0.0, 0.4, 1.0, 2.5, 7.0, 100.0}) {
        const PartitionCost cost{1.0, head};
        const Layers found = balanced_partition(layers, stages, cost);
        ASSERT_EQ(static_cast<std::int64_t>(found.size()), stages);
        ASSERT_EQ(std::accumulate(found.begin(), found.end(), std::int64_t{0}), layers);
        ASSERT_GE(*std::min_element(found.begin(), found.end()), 1);
        Layers cut;
        every_cut(layers, stages, cut, [&](const Layers& other) {
          ASSERT_LE(largest_cost(found, cost), largest_cost(other, cost))
              << layers << " layers, head " << head;
        });
      }
    }
  }
}

TEST(BalancedPartition, IsEvenWithoutAHead) {
  EXPECT_EQ(balanced_partition(8, 2, {1, 0}), (Layers{4, 4}));
  EXPECT_EQ(balanced_partition(10, 4, {1, 0}), (Layers{3, 3, 2, 2}));
  EXPECT_EQ(balanced_partition(9, 4, {1, 0.5}), (Layers{3, 2, 2, 2}));
}

ModelArgs model(std::int64_t layers, std::int64_t hidden, std::int64_t ffn, std::int64_t vocab) {
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
  EXPECT_EQ(layers_per_stage(config, 4), (Layers{3, 3, 2, 2}));
  EXPECT_THROW((void)layers_per_stage(config, 8), ConfigError);
}

TEST(Partition, GivesALargeHeadFewerLayers) {
  NanotronConfig config;
  config.tokens.sequence_length = 256;
  config.model = model(8, 512, 1408, 8192);
  EXPECT_EQ(layers_per_stage(config, 1), (Layers{8}));
  const Layers two = layers_per_stage(config, 2);
  EXPECT_EQ(two, (Layers{5, 3}));
}

}  // namespace
}  // namespace weft
