// Stages that wait for something of their own: whoever completes it, whenever and in whatever order, the
// numbers stay the same, and nothing is resumed that has ended.
#include "weft/actors/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <condition_variable>
#include <map>
#include <thread>

#include "hand_stepped.h"
#include "weft/actors/pipeline.h"
#include "weft/base/error.h"
#include "weft/base/random.h"
#include "weft/transport/inproc/inproc_transport.h"

namespace weft {
namespace {

using testing::HasSubstr;
using toy::HandStepped;
using toy::ToyBatch;
using toy::ToyOptions;

/// What ops wait for, in the order in which they began to.
class Desk {
 public:
  void put(const Completion& completion, std::uint16_t stage) {
    const std::scoped_lock lock(mutex_);
    waiting_.push_back(completion);
    most_of_[stage] = std::max(most_of_[stage], ++of_[stage]);
    changed_.notify_all();
  }
  void left(std::uint16_t stage) {
    const std::scoped_lock lock(mutex_);
    --of_[stage];
  }
  bool complete(std::size_t which) {
    if (waiting_.empty()) return false;
    const auto at = waiting_.begin() + static_cast<std::ptrdiff_t>(which % waiting_.size());
    at->complete();
    waiting_.erase(at);
    return true;
  }
  /// A thread that completes whatever comes, until `end`.
  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
      if (waiting_.empty()) return;
      const Completion next = waiting_.back();
      waiting_.pop_back();
      lock.unlock();
      next.complete();
      next.complete();  // a second time does nothing
      lock.lock();
    }
  }
  void end() {
    const std::scoped_lock lock(mutex_);
    ended_ = true;
    changed_.notify_all();
  }
  std::vector<Completion> waiting() const { return waiting_; }
  int most_of(std::uint16_t stage) { return most_of_[stage]; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Completion> waiting_;
  std::map<std::uint16_t, int> of_;
  std::map<std::uint16_t, int> most_of_;
  bool ended_ = false;
};

/// A toy stage whose ops wait before and after their work; the workspace must still be theirs then.
class WaitingStage final : public Stage {
 public:
  WaitingStage(std::unique_ptr<Stage> stage, Desk& desk, std::uint32_t ops_beside)
      : stage_(std::move(stage)), desk_(desk), ops_beside_(ops_beside) {}
  StagePlan plan(const ShapeList& input) override {
    StagePlan plan = stage_->plan(input);
    plan.ops_beside = ops_beside_;
    return plan;
  }
  void allocate(Arena& state, Queue& queue) override { stage_->allocate(state, queue); }
  std::span<Parameter> parameters() override { return stage_->parameters(); }
  Task<StageOutput> forward(MicrobatchContext& context) override {
    co_await wait(context, 1);
    StageOutput output = co_await stage_->forward(context);
    co_await wait(context, 2);
    co_return output;
  }
  Task<StageOutput> backward_input(MicrobatchContext& context, TensorList gradient) override {
    co_await wait(context, 3);
    StageOutput output = co_await stage_->backward_input(context, std::move(gradient));
    co_return output;
  }
  Task<void> backward_weight(MicrobatchContext& context) override {
    co_await wait(context, 4);
    co_await stage_->backward_weight(context);
  }

 private:
  Task<void> wait(MicrobatchContext& context, std::uint8_t mark) {
    const auto own = static_cast<std::byte>(16 * mark + context.microbatch);
    std::fill(context.workspace.begin(), context.workspace.end(), own);
    const Completion completion = context.completion();
    desk_.put(completion, context.stage);
    co_await completion;
    desk_.left(context.stage);
    for (const std::byte byte : context.workspace)
      if (byte != own) throw Error("another op has written into the workspace");
  }
  std::unique_ptr<Stage> stage_;
  Desk& desk_;
  std::uint32_t ops_beside_;
};

StageFactory waiting_stages(Desk& desk, std::uint32_t ops_beside) {
  return [&desk, ops_beside](std::uint16_t stage, std::uint16_t stages) {
    return std::make_unique<WaitingStage>(toy::toy_stages()(stage, stages), desk, ops_beside);
  };
}

std::vector<Transport*> pointers(std::vector<std::unique_ptr<Transport>>& transports) {
  std::vector<Transport*> all;
  for (auto& t : transports) all.push_back(t.get());
  return all;
}

struct Result {
  std::vector<double> losses;
  std::vector<double> norms;
  double validation = 0;
  bool operator==(const Result&) const = default;
};

Result run(HandStepped& pipeline, std::uint32_t m) {
  Result result;
  for (std::uint64_t step = 1; step <= 2; ++step) {
    ToyBatch batch(step, m);
    const StepReport report = pipeline.train(step, batch)[0];
    result.losses.insert(result.losses.end(), report.losses.begin(), report.losses.end());
    result.norms.push_back(report.gradient_norm);
    for (std::uint32_t r = 0; r < report.ranks.size(); ++r) {
      EXPECT_LE(report.ranks[r].peak_in_flight, pipeline.plan().schedule.peaks[r].in_flight);
      EXPECT_GE(report.ranks[r].bubble, 0.0);
    }
  }
  ToyBatch batch(9, m);
  for (const double loss : pipeline.evaluate(1, batch)) result.validation += loss;  // 0 but on one rank
  return result;
}

Result run_waiting(const std::string& schedule, std::uint32_t ranks, std::uint32_t m,
                   std::uint32_t ops_beside, std::uint64_t seed, Desk& desk) {
  const StageFactory stages = waiting_stages(desk, ops_beside);
  auto transports = make_inproc_transports(ranks);
  const CounterRandom random(seed, RandomPurpose::simulation, 0);
  std::uint64_t drawn = 0;
  HandStepped pipeline(stages, toy::plan_of(stages, schedule, ranks, m), pointers(transports), [&] {
    return desk.complete(static_cast<std::size_t>(random.uniform(drawn++) * 1e6));
  });
  return run(pipeline, m);
}

TEST(Completion, OpsThatWaitChangeNoBitInWhateverOrderTheyAreCompleted) {
  const std::uint32_t m = 6;
  auto transports = make_inproc_transports(1);
  HandStepped plain(toy::toy_plan("afab", 1, m), {}, pointers(transports));
  const Result expected = run(plain, m);
  for (const ScheduleInfo& schedule : all_schedules())
    for (const std::uint32_t ops_beside : {0u, 1u, 3u})
      for (std::uint64_t seed = 1; seed <= 3; ++seed) {
        SCOPED_TRACE(fmt::format("{} beside {} seed {}", schedule.name, ops_beside, seed));
        Desk desk;
        EXPECT_EQ(expected, run_waiting(std::string(schedule.name), 2, m, ops_beside, seed, desk));
      }
}

TEST(Completion, OtherOpsRunMeanwhileOnlyAsTheStageAllows) {
  for (const std::uint32_t ops_beside : {0u, 1u, 2u}) {
    Desk desk;
    run_waiting("afab", 2, 6, ops_beside, 1, desk);
    EXPECT_EQ(desk.most_of(0), std::max(1, static_cast<int>(ops_beside)));
  }
}

std::string standstill_of(HandStepped& pipeline, std::uint32_t m) {
  ToyBatch batch(1, m);
  try {
    pipeline.train(1, batch);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(Completion, WhatIsNeverCompletedIsAStandstillThatSaysSo) {
  for (const std::uint32_t ops_beside : {0u, 2u}) {
    Desk desk;
    const StageFactory stages = waiting_stages(desk, ops_beside);
    auto transports = make_inproc_transports(2);
    HandStepped pipeline(stages, toy::plan_of(stages, "1f1b", 2, 4), pointers(transports),
                         [] { return false; });
    EXPECT_EQ(standstill_of(pipeline, 4),
              "the pipeline stands still; rank 0 waits for the stage's own completion in 0F0; rank 1 waits "
              "for the activation of 0F0 from rank 0");
  }
}

TEST(Completion, MayComeTwiceAndAfterThePipelineHasEnded) {
  Desk desk;
  {
    const StageFactory stages = waiting_stages(desk, 2);
    auto transports = make_inproc_transports(2);
    HandStepped pipeline(stages, toy::plan_of(stages, "afab", 2, 4), pointers(transports),
                         [] { return false; });
    standstill_of(pipeline, 4);
  }
  ASSERT_EQ(desk.waiting().size(), 2u);
  for (const Completion& completion : desk.waiting()) {
    completion.complete();
    completion.complete();
    EXPECT_TRUE(completion.completed());
  }
}

/// Fails its first completion.
class FailingStage final : public Stage {
 public:
  explicit FailingStage(std::unique_ptr<Stage> stage) : stage_(std::move(stage)) {}
  StagePlan plan(const ShapeList& input) override {
    StagePlan plan = stage_->plan(input);
    plan.ops_beside = 2;
    return plan;
  }
  void allocate(Arena& state, Queue& queue) override { stage_->allocate(state, queue); }
  std::span<Parameter> parameters() override { return stage_->parameters(); }
  Task<StageOutput> forward(MicrobatchContext& context) override {
    const Completion completion = context.completion();
    std::thread reader([completion, microbatch = context.microbatch] {
      if (microbatch == 1)
        completion.fail(std::make_exception_ptr(Error("the file cannot be read")));
      else
        completion.complete();
    });
    reader.join();
    co_await completion;
    StageOutput output = co_await stage_->forward(context);
    co_return output;
  }
  Task<StageOutput> backward_input(MicrobatchContext& context, TensorList gradient) override {
    return stage_->backward_input(context, std::move(gradient));
  }
  Task<void> backward_weight(MicrobatchContext& context) override { return stage_->backward_weight(context); }

 private:
  std::unique_ptr<Stage> stage_;
};

PipelineConfig pipeline_of(StageFactory stages, std::uint32_t ranks, std::uint32_t m) {
  PipelineConfig config;
  config.ranks = ranks;
  config.microbatches = m;
  config.stages = std::move(stages);
  config.optimizer = toy::toy_optimizer();
  return config;
}

std::string problem_of(Pipeline& pipeline, std::uint32_t m) {
  ToyBatch batch(1, m);
  try {
    pipeline.step(batch.all_inputs(), batch.all_targets());
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(Completion, ThatFailsEndsTheStepWithItsError) {
  Pipeline pipeline(pipeline_of(
      [](std::uint16_t stage, std::uint16_t stages) -> std::unique_ptr<Stage> {
        auto plain = toy::toy_stages()(stage, stages);
        if (stage != 0) return plain;
        return std::make_unique<FailingStage>(std::move(plain));
      },
      2, 4));
  EXPECT_EQ(problem_of(pipeline, 4), "the file cannot be read");
  EXPECT_EQ(problem_of(pipeline, 4), "this pipeline has failed before: the file cannot be read");
}

TEST(Completion, ThreadsMayCompleteAndTheBitsStay) {
  const std::uint32_t m = 6;
  Pipeline plain(pipeline_of(toy::toy_stages(), 1, m));
  Desk desk;
  std::thread first([&] { desk.serve(); });
  std::thread second([&] { desk.serve(); });
  {
    Pipeline pipeline(pipeline_of(waiting_stages(desk, 2), 3, m));
    for (std::uint64_t step = 1; step <= 5; ++step) {
      ToyBatch batch(step, m);
      const double expected = plain.step(batch.all_inputs(), batch.all_targets()).loss;
      EXPECT_EQ(pipeline.step(batch.all_inputs(), batch.all_targets()).loss, expected);
    }
  }
  desk.end();
  first.join();
  second.join();
}

TEST(Completion, WakesALoopThatBlocks) {
  auto transports = make_inproc_transports(1);
  EventLoop loop(*transports[0]);
  const Completion completion(loop);
  ASSERT_TRUE(transports[0]->arm());
  std::thread other([completion] { completion.complete(); });
  other.join();
  pollfd descriptor{transports[0]->descriptor(), POLLIN, 0};
  EXPECT_EQ(poll(&descriptor, 1, 0), 1);
}

Task<void> wait_for(Completion completion) { co_await completion; }

TEST(Completion, OfAnotherRankIsRefused) {
  auto transports = make_inproc_transports(2);
  EventLoop one(*transports[0]);
  EventLoop other(*transports[1]);
  EXPECT_THROW(one.run(wait_for(Completion(other))), Error);
}

}  // namespace
}  // namespace weft
