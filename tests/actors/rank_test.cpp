#include "weft/actors/rank.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "hand_stepped.h"
#include "weft/base/error.h"
#include "weft/tests/support/allocation_count.h"
#include "weft/transport/inproc/inproc_transport.h"

namespace weft {
namespace {

using toy::HandStepped;
using toy::ToyBatch;
using toy::ToyOptions;

std::vector<Transport*> pointers(std::vector<std::unique_ptr<Transport>>& transports) {
  std::vector<Transport*> all;
  for (auto& t : transports) all.push_back(t.get());
  return all;
}

struct Result {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<float> weights;  // in the order of the model
  bool operator==(const Result&) const = default;
};

TEST(Rank, RefusesADeviceThatTheBuildLacksByItsName) {
  auto transports = make_inproc_transports(1);
  const PipelinePlan plan = toy::toy_plan("1f1b", 1, 1, {});
  RankOptions options;
  options.device = {DeviceKind::cuda, 2};
  try {
    Rank rank(0, plan, toy::toy_stages(), toy::toy_optimizer(), *transports[0], options);
    ADD_FAILURE() << "made";
  } catch (const DeviceError& error) {
    EXPECT_NE(std::string(error.what()).find("cuda:2"), std::string::npos) << error.what();
  }
}

TEST(Rank, KnowsTheGradientsOfItsStagesAsOneRangeEachAndRefusesScatteredOnes) {
  auto transports = make_inproc_transports(1);
  ToyOptions toy;
  const PipelinePlan plan = toy::toy_plan("interleaved_1f1b", 1, 1, toy, 2);
  Rank rank(0, plan, toy::toy_stages(toy), toy::toy_optimizer(), *transports[0], {});
  ASSERT_EQ(rank.gradient_ranges().size(), 2u);
  for (const Parameter* p : rank.parameters()) {
    const std::span<float> range = rank.gradient_ranges()[std::stoi(p->name.substr(5)) / 4];
    EXPECT_GE(p->gradient, range.data());
    EXPECT_LE(p->gradient + p->shape.elements(), range.data() + range.size());
    EXPECT_EQ(p->queue, &rank.queue());
  }

  toy.scatters_gradients = true;
  auto others = make_inproc_transports(1);
  try {
    Rank scattered(0, plan, toy::toy_stages(toy), toy::toy_optimizer(), *others[0], {});
    ADD_FAILURE() << "made";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("stage 0: the gradients of layer0.weight and layer1.weight"),
              std::string::npos)
        << error.what();
  }
}

// Three steps of a toy model with `stages` stages.
Result run(const std::string& schedule, std::uint32_t ranks, std::uint32_t chunks, std::uint32_t m,
           ToyOptions toy = {}, bool ragged = false) {
  auto transports = make_inproc_transports(ranks);
  RankOptions options;
  options.clip_gradient = 0.5;
  HandStepped pipeline(
      toy::toy_plan(schedule, ranks, m, toy, chunks), toy, pointers(transports), [] { return false; },
      options);
  Result result;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    ToyBatch batch(step, m, toy, ragged);
    const auto reports = pipeline.train(step, batch);
    for (const StepReport& report : reports) {
      EXPECT_EQ(report.losses, reports[0].losses);
      EXPECT_EQ(report.gradient_norm, reports[0].gradient_norm);
    }
    result.losses.insert(result.losses.end(), reports[0].losses.begin(), reports[0].losses.end());
    result.norms.push_back(reports[0].gradient_norm);
  }
  // By the number of the layer, wherever it lives.
  std::map<int, std::vector<float>> by_layer;
  for (std::uint32_t r = 0; r < ranks; ++r)
    for (const Parameter* p : pipeline.rank(r).parameters()) {
      const auto* values = reinterpret_cast<const float*>(p->value);
      by_layer[std::stoi(p->name.substr(5))].assign(values, values + p->shape.elements());
    }
  for (const auto& [layer, values] : by_layer)
    result.weights.insert(result.weights.end(), values.begin(), values.end());
  return result;
}

TEST(Rank, AnyScheduleAndNumberOfRanksGivesTheSameBits) {
  for (std::uint32_t m = 1; m <= 13; ++m) {
    const Result expected = run("afab", 1, 1, m);
    for (const ScheduleInfo& schedule : all_schedules())
      for (std::uint32_t ranks = 1; ranks <= 4; ++ranks)
        for (std::uint32_t chunks = schedule.min_chunks; chunks <= std::min(schedule.max_chunks, 8 / ranks);
             ++chunks) {
          SCOPED_TRACE(fmt::format("{} p={} v={} m={}", schedule.name, ranks, chunks, m));
          try {
            EXPECT_EQ(expected, run(std::string(schedule.name), ranks, chunks, m));
          } catch (const ScheduleError& refused) {
            EXPECT_EQ(schedule.name, "dualpipe_v") << refused.what();
            EXPECT_LT(m, 2 * ranks) << refused.what();
          }
        }
  }
}

TEST(Rank, LossesFall) {
  auto transports = make_inproc_transports(2);
  HandStepped pipeline(toy::toy_plan("1f1b", 2, 4), {}, pointers(transports));
  ToyBatch batch(1, 4);
  const double first = pipeline.train(1, batch)[0].loss;
  double last = first;
  for (std::uint64_t step = 2; step <= 300; ++step) last = pipeline.train(step, batch)[0].loss;
  EXPECT_LT(last, 0.8 * first);
}

TEST(Rank, ShapesMayChangeFromMicrobatchToMicrobatch) {
  EXPECT_EQ(run("afab", 3, 1, 7, {}, true), run("1f1b", 3, 1, 7, {}, true));
}

TEST(Rank, SeveralTensorsMayCrossABorder) {
  ToyOptions toy;
  toy.extra_tensor = true;
  EXPECT_EQ(run("afab", 4, 1, 6, toy), run("1f1b", 4, 1, 6, toy));
  EXPECT_EQ(run("1f1b", 4, 1, 6, toy), run("1f1b", 4, 1, 6));
}

TEST(Rank, TiedWeightsStayEqualAndCountOnce) {
  ToyOptions toy;
  toy.tied = 1;
  const std::uint32_t m = 4;
  auto transports = make_inproc_transports(3);
  HandStepped pipeline(toy::toy_plan("1f1b", 3, m, toy), toy, pointers(transports));
  for (std::uint64_t step = 1; step <= 4; ++step) {
    ToyBatch batch(step, m, toy);
    pipeline.train(step, batch);
  }
  const Parameter& first = *pipeline.rank(0).parameters()[0];
  const Parameter& second = *pipeline.rank(2).parameters().back();
  EXPECT_EQ(second.tied_to, first.name);
  EXPECT_EQ(std::memcmp(first.value, second.value, first.shape.elements() * sizeof(float)), 0);
}

TEST(Rank, AnyNumberOfWeightsMayBeTied) {
  ToyOptions toy;
  toy.layers = 600;
  toy.width = 2;
  toy.tied = 300;
  EXPECT_EQ(run("1f1b", 1, 1, 2, toy), run("1f1b", 2, 1, 2, toy));
  const Result result = run("1f1b", 3, 1, 2, toy);
  ASSERT_EQ(result.weights.size(), 600u * 4);
  for (std::size_t i = 0; i < 300u * 4; ++i) ASSERT_EQ(result.weights[i], result.weights[300u * 4 + i]) << i;
}

TEST(Rank, AnyNumberOfUsesOfAWeightStayEqualAndGiveTheSameBits) {
  ToyOptions toy;
  toy.tied = toy.tied_twice = true;
  const Result expected = run("afab", 1, 1, 4, toy);
  for (const std::uint32_t ranks : {2u, 3u}) EXPECT_EQ(run("1f1b", ranks, 1, 4, toy), expected) << ranks;
  EXPECT_EQ(run("interleaved_1f1b", 2, 2, 4, toy), expected);
  const std::size_t layer = std::size_t{toy.width} * toy.width;
  const auto use = [&](std::size_t l) {
    return std::vector<float>(expected.weights.begin() + static_cast<std::ptrdiff_t>(l * layer),
                              expected.weights.begin() + static_cast<std::ptrdiff_t>((l + 1) * layer));
  };
  EXPECT_EQ(use(4), use(0));
  EXPECT_EQ(use(7), use(0));
  EXPECT_NE(expected, run("afab", 1, 1, 4, {.tied = true})) << "the third use counts";
}

TEST(Rank, PeaksAreThePlannedOnesWhateverTheNumberOfMicrobatches) {
  for (const std::uint32_t m : {1u, 2u, 4u, 8u, 16u})
    for (const std::string schedule : {"afab", "1f1b"}) {
      auto transports = make_inproc_transports(4);
      HandStepped pipeline(toy::toy_plan(schedule, 4, m), {}, pointers(transports));
      ToyBatch batch(1, m);
      const auto report = pipeline.train(1, batch)[0];
      for (std::uint32_t r = 0; r < 4; ++r) {
        EXPECT_EQ(report.ranks[r].peak_in_flight, schedule == "afab" ? m : std::min(m, 4 - r));
        EXPECT_EQ(report.ranks[r].peak_activation_bytes, pipeline.plan().memory(r).peak_activation);
      }
    }
}

TEST(Rank, EveryScheduleHoldsExactlyThePlannedBytes) {
  for (const ScheduleInfo& schedule : all_schedules())
    for (const std::uint32_t m : {1u, 3u, 8u, 9u}) {
      const std::uint32_t ranks = 4;
      if (schedule.name == "dualpipe_v" && m < 2 * ranks) continue;
      SCOPED_TRACE(fmt::format("{} m={}", schedule.name, m));
      auto transports = make_inproc_transports(ranks);
      HandStepped pipeline(toy::toy_plan(std::string(schedule.name), ranks, m), {}, pointers(transports));
      for (std::uint64_t step = 1; step <= 2; ++step) {
        ToyBatch batch(step, m);
        const auto report = pipeline.train(step, batch)[0];
        for (std::uint32_t r = 0; r < ranks; ++r) {
          EXPECT_LE(report.ranks[r].peak_in_flight, pipeline.plan().schedule.peaks[r].in_flight);
          if (schedule.dynamic) continue;
          EXPECT_EQ(report.ranks[r].peak_in_flight, pipeline.plan().schedule.peaks[r].in_flight);
          EXPECT_EQ(report.ranks[r].peak_activation_bytes, pipeline.plan().memory(r).peak_activation);
        }
      }
    }
}

TEST(Rank, TheSteadyStateAllocatesNothing) {
  for (const std::string schedule : {"afab", "1f1b", "zbv", "dualpipe_v"}) {
    const std::uint32_t m = 8;
    auto transports = make_inproc_transports(4);
    HandStepped pipeline(toy::toy_plan(schedule, 4, m), {}, pointers(transports));
    ToyBatch batch(1, m);
    for (std::uint64_t step = 1; step <= 3; ++step) pipeline.train_quietly(step, batch);
    const std::uint64_t before = test::allocations();
    for (std::uint64_t step = 4; step <= 6; ++step) pipeline.train_quietly(step, batch);
    EXPECT_EQ(test::allocations() - before, 0u) << schedule;
  }
}

TEST(Rank, EvaluationChangesNothingAndNeedsNoBarrier) {
  const std::uint32_t m = 5;
  auto transports = make_inproc_transports(3);
  HandStepped with(toy::toy_plan("1f1b", 3, m), {}, pointers(transports));
  auto others = make_inproc_transports(3);
  HandStepped without(toy::toy_plan("1f1b", 3, m), {}, pointers(others));
  for (std::uint64_t step = 1; step <= 3; ++step) {
    ToyBatch batch(step, m);
    ToyBatch validation(100 + step, m);
    const auto a = with.train(step, batch);
    const auto b = without.train(step, batch);
    EXPECT_EQ(a[0].losses, b[0].losses);
    EXPECT_GT(with.evaluate(2 * step, validation)[2], 0);
    EXPECT_GT(with.evaluate(2 * step + 1, validation)[2], 0);
  }
}

TEST(Rank, ALossThatIsNotFiniteNamesStepAndMicrobatch) {
  ToyOptions toy;
  toy.poison_at = 2;
  auto transports = make_inproc_transports(2);
  HandStepped pipeline(toy::toy_plan("1f1b", 2, 4, toy), toy, pointers(transports));
  ToyBatch batch(1, 4, toy);
  try {
    pipeline.train(1, batch);
    FAIL() << "nothing was thrown";
  } catch (const NonFiniteError& e) {
    EXPECT_NE(std::string(e.what()).find("step 1, micro-batch 2"), std::string::npos) << e.what();
  }
}

TEST(Rank, AStageThatCannotSplitItsBackwardRefusesSchedulesThatDo) {
  ToyOptions toy;
  toy.splits_backward = false;
  EXPECT_NO_THROW(toy::toy_plan("1f1b", 2, 4, toy));
  EXPECT_NO_THROW(toy::toy_plan("afab", 2, 4, toy));
}

TEST(Rank, APolicyThatNamesAnOpWithoutItsInputsIsRefused) {
  class Hasty final : public Policy {
   public:
    void begin_step(std::uint64_t, Phase) override {}
    Decision choose(const RankView& view) override {
      return Decision::run({0, view.stages()[0], OpKind::backward});
    }
  };
  auto transports = make_inproc_transports(1);
  RankOptions options;
  options.policy = [](const Schedule&, std::uint32_t) { return std::make_unique<Hasty>(); };
  HandStepped pipeline(
      toy::toy_plan("1f1b", 1, 2), {}, pointers(transports), [] { return false; }, options);
  ToyBatch batch(1, 2);
  EXPECT_THROW(pipeline.train(1, batch), ScheduleError);
}

/// The policy of the schedule, changed on one rank.
RankOptions with_policy_of(std::uint32_t changed_rank,
                           std::function<Decision(Policy& own, const RankView& view)> choose) {
  class Changed final : public Policy {
   public:
    Changed(std::unique_ptr<Policy> own, std::function<Decision(Policy&, const RankView&)> choose)
        : own_(std::move(own)), choose_(std::move(choose)) {}
    void begin_step(std::uint64_t step, Phase phase) override { own_->begin_step(step, phase); }
    Decision choose(const RankView& view) override { return choose_(*own_, view); }

   private:
    std::unique_ptr<Policy> own_;
    std::function<Decision(Policy&, const RankView&)> choose_;
  };
  RankOptions options;
  options.policy = [=](const Schedule& schedule, std::uint32_t rank) -> std::unique_ptr<Policy> {
    auto own = make_policy(schedule, rank);
    if (rank != changed_rank) return own;
    return std::make_unique<Changed>(std::move(own), choose);
  };
  return options;
}

TEST(Rank, APolicyThatNamesAnOpThatThereIsNotIsRefused) {
  for (const Op& op : {Op{99, 0, OpKind::forward}, Op{99, 0, OpKind::backward}, Op{0, 1, OpKind::forward}}) {
    auto transports = make_inproc_transports(2);
    HandStepped pipeline(
        toy::toy_plan("1f1b", 2, 2), {}, pointers(transports), [] { return false; },
        with_policy_of(0, [&](Policy&, const RankView&) { return Decision::run(op); }));
    ToyBatch batch(1, 2);
    try {
      pipeline.train(1, batch);
      FAIL() << "nothing was thrown";
    } catch (const ScheduleError& e) {
      EXPECT_NE(std::string(e.what()).find("it is no op of this rank"), std::string::npos) << e.what();
    }
  }
}

TEST(Rank, ThatFailedIsDeadAndSaysWhy) {
  ToyOptions toy;
  toy.poison_at = 1;
  auto transports = make_inproc_transports(2);
  HandStepped pipeline(toy::toy_plan("1f1b", 2, 4, toy), toy, pointers(transports));
  ToyBatch batch(1, 4, toy);
  EXPECT_THROW(pipeline.train(1, batch), NonFiniteError);
  for (int again = 0; again < 2; ++again) try {
      pipeline.rank(1).train(2, batch);
      FAIL() << "trained on";
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(),
                   "this rank has failed before: step 1, micro-batch 1: the loss is NaN; first tensor that "
                   "is not finite: the loss itself");
    }
  EXPECT_THROW(pipeline.rank(1).evaluate(1, batch), Error);
  EXPECT_THROW(pipeline.rank(1).gather_text(""), Error);
}

// What the launcher's report of a standstill is made of: a rank that has done its ops waits as well.
TEST(Rank, SaysThatItWaitsForTheOthersAtTheEndOfAStep) {
  const auto all_but_the_last_backward = [](Policy& own, const RankView& view) {
    const Decision decision = own.choose(view);
    const Op* op = decision.op();
    return op != nullptr && op->kind == OpKind::backward && op->microbatch == 7 ? Decision::wait() : decision;
  };
  auto transports = make_inproc_transports(2);
  HandStepped pipeline(
      toy::toy_plan("1f1b", 2, 8), {}, pointers(transports), [] { return false; },
      with_policy_of(0, all_but_the_last_backward));
  ToyBatch batch(1, 8);
  try {
    pipeline.train(1, batch);
    FAIL() << "went on without the op";
  } catch (const std::runtime_error& e) {
    const std::string what = e.what();
    EXPECT_NE(what.find("rank 1 waits for the other ranks at the end of the step"), std::string::npos)
        << what;
  }
}

}  // namespace
}  // namespace weft
