#include "weft/actors/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <tuple>

#include "toy_model.h"
#include "weft/base/error.h"
#include "weft/tensor/bfloat16.h"

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

/// What a test's function says, with the number of decisions so far.
class Told final : public Policy {
 public:
  using Choose = std::function<Decision(const RankView&, std::size_t)>;
  explicit Told(Choose choose) : choose_(std::move(choose)) {}
  void begin_step(std::uint64_t, Phase) override { asked_ = 0; }
  Decision choose(const RankView& view) override { return choose_(view, asked_++); }

 private:
  Choose choose_;
  std::size_t asked_ = 0;
};

PipelineConfig told(Told::Choose choose, std::uint32_t ranks, std::uint32_t m, ToyOptions toy = {}) {
  PipelineConfig pipeline = config(ranks, m, toy);
  pipeline.policy = [choose](const Schedule&, std::uint32_t) { return std::make_unique<Told>(choose); };
  return pipeline;
}

/// One rank that is told to run these ops.
std::string problem_of(std::vector<Op> ops, bool splits = true) {
  ToyOptions toy;
  toy.splits_backward = splits;
  PipelineConfig pipeline =
      told([ops](const RankView&,
                 std::size_t n) { return n < ops.size() ? Decision::run(ops[n]) : Decision::wait(); },
           1, 2, toy);
  pipeline.max_in_flight = 2;
  return problem_of(std::move(pipeline));
}

TEST(Pipeline, APolicyIsHeldToTheRulesWhateverItNames) {
  constexpr OpKind F = OpKind::forward, B = OpKind::backward, I = OpKind::backward_input,
                   W = OpKind::backward_weight;
  const Op f0{0, 0, F}, f1{1, 0, F}, b0{0, 0, B}, b1{1, 0, B}, i0{0, 0, I}, w0{0, 0, W}, w1{1, 0, W};
  const auto names = [](const char* op, const char* rule) {
    return std::string("rank 0: the policy names ") + op + ": " + rule;
  };
  EXPECT_EQ(problem_of({f0, f0}), names("0F0", "it has been issued before"));
  EXPECT_EQ(problem_of({f0, b0, f0}), names("0F0", "it has been issued before"));
  EXPECT_EQ(problem_of({f0, b0, b0}), names("0B0", "it has been issued before"));
  EXPECT_EQ(problem_of({f0, i0, i0}), names("0I0", "it has been issued before"));
  EXPECT_EQ(problem_of({f0, i0, b0}), names("0B0", "it has been issued before"));
  EXPECT_EQ(problem_of({f0, b0, i0}), names("0I0", "it has been issued before"));
  EXPECT_EQ(problem_of({f0, i0, w0, i0}), names("0I0", "it has been issued before"));
  EXPECT_EQ(problem_of({f0, i0, w0, w0}), names("0W0", "it has been issued before"));
  EXPECT_EQ(problem_of({f0, f1, b0, w0}), names("0W0", "it has been issued before"));
  EXPECT_EQ(problem_of({b0}), names("0B0", "its inputs are not there"));
  EXPECT_EQ(problem_of({f0, w0}), names("0W0", "its inputs are not there"));
  EXPECT_EQ(problem_of({f0, f1, w1}), names("0W1", "its inputs are not there"));
  EXPECT_THAT(problem_of({f0, f1, b1, b1}), HasSubstr("the policy named 0B1 again while that is held"));
  EXPECT_EQ(problem_of({{2, 0, F}}), names("0F2", "it is no op of this rank"));
  EXPECT_EQ(problem_of({{0, 1, F}}), names("1F0", "it is no op of this rank"));
  EXPECT_EQ(problem_of({{0, 65535, W}}), names("65535W0", "it is no op of this rank"));
  EXPECT_EQ(problem_of({f0, i0}, false), names("0I0", "its stage cannot run I and W apart"));
  EXPECT_EQ(problem_of({f0, f1, b1}, false),
            names("0I1", "its B comes out of micro-batch order, and its stage cannot run I and W apart"));
}

TEST(Pipeline, APolicyMayNotExceedItsSlots) {
  PipelineConfig pipeline = told(
      [](const RankView&, std::size_t n) {
        return Decision::run({static_cast<std::uint32_t>(n), 0, OpKind::forward});
      },
      1, 3);
  pipeline.max_in_flight = 2;
  EXPECT_EQ(problem_of(std::move(pipeline)), "rank 0: the policy names 0F2: all slots of the rank are taken");
}

TEST(Pipeline, AViewSaysNoToOpsOfOthers) {
  bool asked = false;
  problem_of(told(
      [&](const RankView& view, std::size_t) {
        for (const Op& op : {Op{0, 7, OpKind::forward}, Op{99, 0, OpKind::forward}}) {
          EXPECT_FALSE(view.inputs_ready(op) || view.issued(op) || view.completed(op) || view.owns(op));
          EXPECT_EQ(view.next_weight(7), 0u);
        }
        asked = true;
        return Decision::run({99, 0, OpKind::forward});
      },
      1, 2));
  EXPECT_TRUE(asked);
}

/// Backward first, by what is ready alone, whatever the phase.
Decision backward_first(const RankView& view, std::size_t) {
  for (const OpKind kind : {OpKind::backward, OpKind::forward})
    for (std::uint32_t k = 0; k < view.microbatches(); ++k) {
      const Op op{k, view.stages().front(), kind};
      if (!view.issued(op) && view.inputs_ready(op) && (kind == OpKind::backward || view.free_slots() > 0))
        return Decision::run(op);
    }
  return Decision::wait();
}

TEST(Pipeline, AnEvaluationRunsForwardOpsAlone) {
  Pipeline pipeline(told(backward_first, 1, 2));
  ToyBatch batch(1, 2);
  EXPECT_EQ(pipeline.step(batch.all_inputs(), batch.all_targets()).losses.size(), 2u);
  try {
    pipeline.evaluate(batch.all_inputs(), batch.all_targets());
    FAIL() << "ran a backward op";
  } catch (const ScheduleError& e) {
    EXPECT_STREQ(e.what(), "rank 0: the policy names 0B0: an evaluation runs F alone");
  }
  EXPECT_THAT(
      [&] { pipeline.step(batch.all_inputs(), batch.all_targets()); },
      testing::ThrowsMessage<Error>("this pipeline has failed before: rank 0: the policy names 0B0: an "
                                    "evaluation runs F alone"));
  EXPECT_THROW(pipeline.parameters_changed(), Error);
  EXPECT_THROW(std::ignore = pipeline.gather_parameters(), Error);
}

/// All F, then all I, then all W: as many slots of both kinds as there are micro-batches.
Decision all_at_once(const RankView& view, std::size_t) {
  for (const OpKind kind : {OpKind::forward, OpKind::backward_input, OpKind::backward_weight})
    for (std::uint32_t k = 0; k < view.microbatches(); ++k) {
      const Op op{k, view.stages().front(), kind};
      if (view.issued(op)) continue;
      return view.inputs_ready(op) ? Decision::run(op) : Decision::wait();
    }
  return Decision::wait();
}

TEST(Pipeline, MaxInFlightWidensAllSlotsForAPolicyOfOnesOwn) {
  const std::uint32_t m = 7;
  const auto expected = losses(config(1, m), 3);
  const std::string narrow = problem_of(told(all_at_once, 3, m));
  EXPECT_THAT(narrow, HasSubstr("slots")) << "1F1B's own are too few";
  PipelineConfig wide = told(all_at_once, 3, m);
  wide.max_in_flight = m;
  EXPECT_EQ(losses(std::move(wide), 3), expected);
}

TEST(Pipeline, ThePlanOfAWidenedPipelineIsWhatTheRunMeasures) {
  const std::uint32_t m = 7;
  const auto afab = [](const RankView& view, std::size_t) {
    for (const OpKind kind : {OpKind::forward, OpKind::backward})
      for (std::uint32_t k = 0; k < view.microbatches(); ++k) {
        const Op op{k, view.stages().front(), kind};
        if (view.issued(op)) continue;
        return view.inputs_ready(op) ? Decision::run(op) : Decision::wait();
      }
    return Decision::wait();
  };
  PipelineConfig given = told(afab, 3, m);
  given.max_in_flight = m;
  given.stages = [inner = given.stages](std::uint16_t stage, std::uint16_t stages) {
    Changes larger{.plan = [](StagePlan& plan) { plan.activation_slot += plan.weight_slot; }};
    return std::make_unique<ChangedStage>(inner(stage, stages), larger);
  };
  Pipeline pipeline(std::move(given));
  ToyBatch batch(1, m);
  const StepReport report = pipeline.step(batch.all_inputs(), batch.all_targets());
  for (std::uint32_t r = 0; r < 3; ++r) {
    EXPECT_EQ(report.ranks[r].peak_in_flight, m);
    EXPECT_EQ(pipeline.plan().schedule.peaks[r].in_flight, m);
    EXPECT_EQ(report.ranks[r].peak_activation_bytes, pipeline.plan().memory(r).peak_activation);
  }
}

TEST(Pipeline, TransportsThatCannotBeAreRefused) {
  const auto with = [](const char* transport) {
    PipelineConfig pipeline = config(2, 2);
    pipeline.transport = transport;
    return problem_of(std::move(pipeline));
  };
  EXPECT_EQ(with("inproc"), "");
  EXPECT_EQ(with("tcp"), "PipelineConfig::transport is tcp; allowed: auto, ucx, inproc");
  EXPECT_THAT(with("ucx"), HasSubstr("no launcher has started this process; allowed: weft launch -n 2"));
}

TEST(Pipeline, GathersParametersInTheOrderOfTheModelATiedOneOnce) {
  ToyOptions toy;
  toy.tied = true;
  PipelineConfig given = config(2, 2, toy);
  given.schedule = "interleaved_1f1b";
  Pipeline pipeline(std::move(given));
  const auto all = pipeline.gather_parameters();
  ASSERT_EQ(all.size(), 7u);
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].name, "layer" + std::to_string(i) + ".weight");
    EXPECT_EQ(all[i].shape, (Shape{5, 5}));
  }
  for (const Parameter* parameter : pipeline.parameters())
    if (parameter->name == "layer3.weight") {
      EXPECT_EQ(std::memcmp(parameter->value, all[3].bytes.data(), all[3].bytes.size()), 0);
    }
}

TEST(Pipeline, TracesAllRanks) {
  Pipeline pipeline(config(2, 3));
  ToyBatch batch(1, 3);
  pipeline.start_trace();
  pipeline.step(batch.all_inputs(), batch.all_targets());
  const auto events = pipeline.stop_trace();
  pipeline.step(batch.all_inputs(), batch.all_targets());
  const auto executed = [&](std::uint32_t rank) {
    return std::count_if(events.begin(), events.end(), [&](const TraceEvent& event) {
      return event.kind == TraceKind::executed && event.rank == rank && event.step == 1;
    });
  };
  EXPECT_EQ(executed(0), 6);
  EXPECT_EQ(executed(1), 6);
  EXPECT_TRUE(pipeline.stop_trace().empty()) << "only what lies between start and stop";
}

TEST(Pipeline, GoesOnAfterAStepAndWithParametersFromOutside) {
  const auto expected = losses(config(2, 4), 6);
  Pipeline first(config(2, 4));
  const auto step = [](Pipeline& pipeline) {
    ToyBatch batch(pipeline.steps() + 1, 4);
    return pipeline.step(batch.all_inputs(), batch.all_targets()).loss;
  };
  for (int i = 0; i < 3; ++i) step(first);
  Pipeline second(config(4, 4));
  const auto values = first.gather_parameters();
  for (Parameter* parameter : second.parameters())
    for (const GatheredParameter& value : values)
      if (value.name == parameter->name) std::copy(value.bytes.begin(), value.bytes.end(), parameter->value);
  second.parameters_changed();
  second.continue_after(first.steps());
  EXPECT_EQ(second.steps(), 3u);
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(step(second), expected[i]);
  EXPECT_EQ(second.steps(), 6u);
}

TEST(Pipeline, OpsAreToldTheirThreads) {
  std::atomic<std::uint32_t> seen{0};
  PipelineConfig given = config(1, 1);
  given.threads = 5;
  class Asking final : public Stage {
   public:
    Asking(std::unique_ptr<Stage> stage, std::atomic<std::uint32_t>& told)
        : stage_(std::move(stage)), seen_(told) {}
    StagePlan plan(const ShapeList& input) override { return stage_->plan(input); }
    void allocate(Arena& state, Queue& queue) override { stage_->allocate(state, queue); }
    std::span<Parameter> parameters() override { return stage_->parameters(); }
    Task<StageOutput> forward(MicrobatchContext& context) override {
      seen_ = context.threads;
      return stage_->forward(context);
    }
    Task<StageOutput> backward_input(MicrobatchContext& context, TensorList gradient) override {
      return stage_->backward_input(context, std::move(gradient));
    }
    Task<void> backward_weight(MicrobatchContext& context) override {
      return stage_->backward_weight(context);
    }

   private:
    std::unique_ptr<Stage> stage_;
    std::atomic<std::uint32_t>& seen_;
  };
  given.stages = [&](std::uint16_t stage, std::uint16_t stages) {
    return std::make_unique<Asking>(toy::toy_stages()(stage, stages), seen);
  };
  losses(std::move(given), 1);
  EXPECT_EQ(seen, 5u);
}

/// A last stage whose input comes as bfloat16 and whose loss is bad: what is named first?
class HalfStage final : public Stage {
 public:
  HalfStage(std::uint16_t stage, std::uint16_t bad) : stage_(stage), bad_(bad) {}
  StagePlan plan(const ShapeList&) override {
    StagePlan plan;
    if (stage_ == 0)
      for (int i = 0; i < 2; ++i) plan.outputs.push_back({DType::bfloat16, Shape{3}});
    return plan;
  }
  void allocate(Arena&, Queue&) override {}
  std::span<Parameter> parameters() override { return {}; }
  Task<StageOutput> forward(MicrobatchContext& context) override {
    StageOutput output;
    for (std::uint16_t i = 0; stage_ == 0 && i < 2; ++i) {
      Tensor tensor = context.allocate(i, DType::bfloat16, Shape{3});
      for (int k = 0; k < 3; ++k)
        tensor.as<BFloat16>()[k] = to_bfloat16(i == bad_ && k == 2 ? INFINITY : 1.0f);
      output.tensors.push_back(std::move(tensor));
    }
    if (stage_ == 1) *context.loss = INFINITY;
    co_return output;
  }
  Task<StageOutput> backward_input(MicrobatchContext&, TensorList) override { co_return StageOutput(); }
  Task<void> backward_weight(MicrobatchContext&) override { co_return; }

 private:
  std::uint16_t stage_;
  std::uint16_t bad_;
};

TEST(Pipeline, ANonFiniteLossNamesTheFirstBadTensorOfAnyType) {
  const auto with = [](std::uint16_t bad) {
    PipelineConfig pipeline = config(2, 2);
    pipeline.stages = [bad](std::uint16_t stage, std::uint16_t) {
      return std::make_unique<HalfStage>(stage, bad);
    };
    return problem_of(std::move(pipeline));
  };
  const std::string begin = "step 1, micro-batch 0: the loss is inf; first tensor that is not finite: ";
  EXPECT_EQ(with(0), begin + "tensor 0 of the activation of stage 0");
  EXPECT_EQ(with(1), begin + "tensor 1 of the activation of stage 0");
  EXPECT_EQ(with(9), begin + "the loss itself");
}

TEST(Pipeline, ATieToATiedWeightIsRefused) {
  PipelineConfig given = config(1, 1);
  class Chain final : public Stage {
   public:
    Chain() {
      for (const auto& [name, tied_to] : {std::pair{"a", ""}, {"b", "a"}, {"c", "b"}}) {
        Parameter parameter;
        parameter.name = name;
        parameter.tied_to = tied_to;
        parameter.shape = Shape{1};
        parameters_.push_back(parameter);
      }
    }
    StagePlan plan(const ShapeList&) override { return {}; }
    void allocate(Arena&, Queue&) override {}
    std::span<Parameter> parameters() override { return parameters_; }
    Task<StageOutput> forward(MicrobatchContext&) override { co_return StageOutput(); }
    Task<StageOutput> backward_input(MicrobatchContext&, TensorList) override { co_return StageOutput(); }
    Task<void> backward_weight(MicrobatchContext&) override { co_return; }

   private:
    std::vector<Parameter> parameters_;
  };
  given.stages = [](std::uint16_t, std::uint16_t) { return std::make_unique<Chain>(); };
  EXPECT_EQ(problem_of(std::move(given)), "c is tied to b, which is tied itself; allowed: a");
}

TEST(Pipeline, ParametersOfAllRanksAreThere) {
  Pipeline pipeline(config(4, 2));
  EXPECT_EQ(pipeline.parameters().size(), 8u);
}

}  // namespace
}  // namespace weft
