#include "weft/actors/pipeline.h"

#include <gtest/gtest.h>

#include "toy_model.h"
#include "weft/base/error.h"

namespace weft {
namespace {

using toy::ToyBatch;
using toy::ToyOptions;

PipelineConfig config(std::uint32_t ranks, std::uint32_t m, ToyOptions toy = {}) {
  PipelineConfig pipeline;
  pipeline.ranks = ranks;
  pipeline.microbatches = m;
  pipeline.stages = toy::toy_stages(toy);
  pipeline.optimizer = toy::toy_optimizer();
  return pipeline;
}

std::vector<double> losses(PipelineConfig given, int steps) {
  const std::uint32_t m = given.microbatches;
  Pipeline pipeline(std::move(given));
  std::vector<double> all;
  for (int step = 1; step <= steps; ++step) {
    ToyBatch batch(static_cast<std::uint64_t>(step), m);
    all.push_back(pipeline.step(batch.all_inputs(), batch.all_targets()).loss);
  }
  return all;
}

TEST(Pipeline, RanksAsThreadsGiveTheBitsOfOneRank) {
  const auto expected = losses(config(1, 6), 5);
  for (const std::uint32_t ranks : {2u, 4u, 8u}) EXPECT_EQ(losses(config(ranks, 6), 5), expected) << ranks;
}

TEST(Pipeline, EvaluatesBetweenSteps) {
  Pipeline pipeline(config(3, 4));
  ToyBatch batch(1, 4);
  const double before = pipeline.evaluate(batch.all_inputs(), batch.all_targets());
  const double first = pipeline.step(batch.all_inputs(), batch.all_targets()).loss;
  EXPECT_EQ(before, first);
  EXPECT_LT(pipeline.evaluate(batch.all_inputs(), batch.all_targets()), before);
}

TEST(Pipeline, AStageThatThrowsEndsAllRanksWithItsCause) {
  ToyOptions toy;
  toy.throw_at = 1;
  Pipeline pipeline(config(4, 6, toy));
  ToyBatch batch(1, 6, toy);
  EXPECT_THROW(
      {
        try {
          pipeline.step(batch.all_inputs(), batch.all_targets());
        } catch (const Error& e) {
          EXPECT_STREQ(e.what(), "the toy breaks on purpose");
          throw;
        }
      },
      Error);
  EXPECT_THROW(pipeline.step(batch.all_inputs(), batch.all_targets()), Error) << "a dead pipeline says so";
}

TEST(Pipeline, AWrongNumberOfMicrobatchesIsRefused) {
  Pipeline pipeline(config(2, 4));
  ToyBatch batch(1, 3);
  EXPECT_THROW(pipeline.step(batch.all_inputs(), batch.all_targets()), Error);
}

TEST(Pipeline, AnUnknownScheduleIsRefusedBeforeAnythingStarts) {
  PipelineConfig wrong = config(2, 4);
  wrong.schedule = "1f2b";
  EXPECT_THROW(Pipeline pipeline(std::move(wrong)), ScheduleError);
}

TEST(Pipeline, AShapeAboveTheDeclaredOneIsRefused) {
  ToyOptions toy;
  Pipeline pipeline(config(2, 2, toy));
  ToyOptions larger = toy;
  larger.rows = toy.rows + 1;
  ToyBatch batch(1, 2, larger);
  EXPECT_THROW(pipeline.step(batch.all_inputs(), batch.all_targets()), Error);
}

TEST(Pipeline, ParametersOfAllRanksAreThere) {
  Pipeline pipeline(config(4, 2));
  EXPECT_EQ(pipeline.parameters().size(), 8u);
}

}  // namespace
}  // namespace weft
