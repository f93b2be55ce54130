#include "weft/actors/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "toy_model.h"
#include "weft/base/error.h"

namespace weft {
namespace {

using testing::HasSubstr;
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

/// A toy stage with its calls changed on the way.
struct Changes {
  std::function<void(StagePlan&)> plan = [](StagePlan&) {};
  bool allocates_twice = false;
  bool wrong_gradient = false;  ///< the shape of the gradient is not that of the input
};
class ChangedStage final : public Stage {
 public:
  ChangedStage(std::unique_ptr<Stage> stage, Changes changes)
      : stage_(std::move(stage)), changes_(std::move(changes)) {}
  StagePlan plan(const ShapeList& input) override {
    StagePlan plan = stage_->plan(input);
    changes_.plan(plan);
    return plan;
  }
  void allocate(Arena& state, Queue& queue) override { stage_->allocate(state, queue); }
  std::span<Parameter> parameters() override { return stage_->parameters(); }
  Task<StageOutput> forward(MicrobatchContext& context) override {
    StageOutput output = co_await stage_->forward(context);
    if (changes_.allocates_twice && context.stage == 0)
      output.tensors[0] = context.allocate(0, DType::float32, output.tensors[0].shape());
    co_return output;
  }
  Task<StageOutput> backward_input(MicrobatchContext& context, TensorList gradient) override {
    StageOutput output = co_await stage_->backward_input(context, std::move(gradient));
    if (changes_.wrong_gradient && context.stage == 1) {
      static float number = 0;
      output.tensors[0] =
          Tensor(Buffer::borrowed(reinterpret_cast<std::byte*>(&number), 4), DType::float32, Shape{1, 1});
    }
    co_return output;
  }
  Task<void> backward_weight(MicrobatchContext& context) override { return stage_->backward_weight(context); }

 private:
  std::unique_ptr<Stage> stage_;
  Changes changes_;
};

PipelineConfig changed(const Changes& changes) {
  PipelineConfig pipeline = config(2, 2);
  pipeline.stages = [inner = pipeline.stages, changes](std::uint16_t stage, std::uint16_t stages) {
    return std::make_unique<ChangedStage>(inner(stage, stages), changes);
  };
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

/// What making the pipeline, or its first step, throws.
std::string problem_of(PipelineConfig given) {
  try {
    losses(std::move(given), 1);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
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

TEST(Pipeline, WhatCannotBeMadeIsRefusedWithItsCause) {
  const auto with = [](const std::function<void(PipelineConfig&)>& change) {
    PipelineConfig pipeline = config(2, 2);
    change(pipeline);
    return problem_of(std::move(pipeline));
  };
  EXPECT_THAT(with([](auto& c) { c.stages = nullptr; }), HasSubstr("PipelineConfig::stages is empty"));
  EXPECT_THAT(with([](auto& c) { c.optimizer = nullptr; }), HasSubstr("PipelineConfig::optimizer is empty"));
  EXPECT_THAT(with([](auto& c) { c.stages = [](auto, auto) { return nullptr; }; }),
              HasSubstr("the stage factory made no stage 0"));
  EXPECT_THAT(with([](auto& c) { c.optimizer = [] { return nullptr; }; }),
              HasSubstr("the optimizer factory made no optimizer"));
  EXPECT_THAT(with([](auto& c) { c.policy = [](auto&, auto) { return nullptr; }; }),
              HasSubstr("the policy factory made no policy for rank"));
  for (const double clip : {-1.0, 0.0, std::nan("")})
    EXPECT_THAT(with([&](auto& c) { c.clip_gradient = clip; }), HasSubstr("clip_gradient is")) << clip;
  EXPECT_THAT(problem_of(changed({.plan = [](StagePlan& plan) { plan.state = 64; }})),
              HasSubstr("is used up"));
  EXPECT_THAT(problem_of(changed({.plan = [](StagePlan& plan) { plan.activation_slot = SIZE_MAX; }})),
              HasSubstr("stage 0: its activation_slot would be 18446744073709551615 bytes"));
  PipelineConfig many =
      changed({.plan = [](StagePlan& plan) { plan.activation_slot = std::size_t{1} << 55; }});
  many.schedule = "afab";
  many.microbatches = 1024;
  EXPECT_THAT(problem_of(std::move(many)), HasSubstr("rank 0: its slots would be"));
}

TEST(Pipeline, WrongOutputsOfAStageAreRefused) {
  EXPECT_EQ(problem_of(changed({})), "");
  EXPECT_THAT(problem_of(changed({.allocates_twice = true})), HasSubstr("allocates output number 0 twice"));
  EXPECT_THAT(problem_of(changed({.wrong_gradient = true})),
              HasSubstr("stage 1, micro-batch 0: the gradient of input 0 is [1, 1], the input is [4, 5]"));
}

TEST(Pipeline, ParametersOfAllRanksAreThere) {
  Pipeline pipeline(config(4, 2));
  EXPECT_EQ(pipeline.parameters().size(), 8u);
}

}  // namespace
}  // namespace weft
