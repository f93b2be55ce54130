#include "weft/training/checkpoint/pipeline_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "weft/base/error.h"
#include "weft/model/optimizer/adamw.h"
#include "weft/tests/actors/toy_model.h"
#include "weft/training/checkpoint/checkpoint_search.h"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::ToyBatch;
using toy::ToyOptions;

class PipelineCheckpoint : public testing::Test {
 protected:
  PipelineCheckpoint() {
    std::string name = testing::TempDir() + "weft-pipeline-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~PipelineCheckpoint() override { std::filesystem::remove_all(folder_); }

  static PipelineConfig config(std::uint32_t ranks, ToyOptions toy = {}) {
    PipelineConfig pipeline;
    pipeline.ranks = ranks;
    pipeline.microbatches = 4;
    pipeline.stages = toy::toy_stages(toy);
    pipeline.optimizer = [] {
      AdamWConfig adamw;
      adamw.learning_rate = [](std::uint64_t) { return 0.01; };
      return std::make_unique<AdamWOptimizer>(adamw);
    };
    return pipeline;
  }
  static double train(Pipeline& pipeline, int steps, ToyOptions toy = {}) {
    double loss = 0;
    for (int i = 0; i < steps; ++i) {
      ToyBatch batch(pipeline.steps() + 1, 4, toy);
      loss = pipeline.step(batch.all_inputs(), batch.all_targets()).loss;
    }
    return loss;
  }

  std::filesystem::path folder_;
};

TEST_F(PipelineCheckpoint, GoesOnWithTheSameBitsOnAnyNumberOfRanks) {
  ToyOptions toy;
  toy.tied = true;
  Pipeline whole(config(1, toy));
  const double expected = train(whole, 6, toy);
  {
    Pipeline pipeline(config(3, toy));
    train(pipeline, 3, toy);
    TrainingPosition position;
    position.consumed_samples = 12;
    EXPECT_EQ(save_checkpoint(pipeline, folder_, position), folder_ / "step-00000003");
    train(pipeline, 1, toy);
    EXPECT_EQ(save_checkpoint(pipeline, folder_), folder_ / "step-00000004");
  }
  Pipeline from_step(config(2, toy));
  EXPECT_EQ(load_checkpoint(from_step, folder_ / "step-00000003").consumed_samples, 12u);
  EXPECT_EQ(train(from_step, 3, toy), expected);
  Pipeline from_newest(config(1, toy));
  EXPECT_EQ(load_checkpoint(from_newest, folder_).step, 4u);
  EXPECT_EQ(train(from_newest, 2, toy), expected);
}

TEST_F(PipelineCheckpoint, WhatCannotBeSavedLeavesThePipelineAlive) {
  Pipeline pipeline(config(2));
  train(pipeline, 1);
  std::filesystem::create_directory(folder_ / "step-00000001");  // somebody else's
  EXPECT_THAT([&] { save_checkpoint(pipeline, folder_); },
              ThrowsMessage<CheckpointError>(HasSubstr("stands where a checkpoint belongs and is none")));
  std::ofstream(folder_ / "file") << "no folder";
  EXPECT_THROW(save_checkpoint(pipeline, folder_ / "file"), CheckpointError);
  train(pipeline, 1);
  EXPECT_EQ(save_checkpoint(pipeline, folder_), folder_ / "step-00000002");
}

TEST_F(PipelineCheckpoint, AnotherModelOrNoneIsRefused) {
  Pipeline pipeline(config(2));
  EXPECT_THROW(load_checkpoint(pipeline, folder_), CheckpointError);
  train(pipeline, 1);
  save_checkpoint(pipeline, folder_);
  ToyOptions deeper;
  deeper.layers = 9;
  Pipeline other(config(2, deeper));
  EXPECT_THAT([&] { load_checkpoint(other, folder_); },
              ThrowsMessage<CheckpointError>(HasSubstr("holds another model's weights")));
  EXPECT_EQ(other.steps(), 0u);
}

}  // namespace
}  // namespace weft
