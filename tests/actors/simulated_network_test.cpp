// The order and time of arrival decide nothing: any schedule over a network that delays and reorders gives
// the same bits.
#include <fmt/core.h>
#include <gtest/gtest.h>

#include "hand_stepped.h"
#include "weft/base/error.h"
#include "weft/transport/simulated/simulated_network.h"

namespace weft {
namespace {

using toy::HandStepped;
using toy::ToyBatch;

struct Result {
  std::vector<double> losses;
  std::vector<double> norms;
  bool operator==(const Result&) const = default;
};

Result run(const std::string& schedule, std::uint32_t ranks, std::uint32_t m, std::uint64_t seed) {
  SimulatedNetwork network(ranks, seed);
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<Transport*> pointers;
  for (std::uint32_t r = 0; r < ranks; ++r) {
    transports.push_back(network.transport(r));
    pointers.push_back(transports.back().get());
  }
  toy::ToyOptions toy;
  toy.tied = 1;
  toy.extra_tensor = true;
  HandStepped pipeline(toy::toy_plan(schedule, ranks, m, toy), toy, pointers, [&] { return network.step(); });
  Result result;
  for (std::uint64_t step = 1; step <= 3; ++step) {
    ToyBatch batch(step, m, toy, true);
    const StepReport report = pipeline.train(step, batch)[0];
    result.losses.insert(result.losses.end(), report.losses.begin(), report.losses.end());
    result.norms.push_back(report.gradient_norm);
    ToyBatch validation(50 + step, m, toy);
    pipeline.evaluate(step, validation);
  }
  for (auto& transport : transports) transport->close(0);
  return result;
}

class SimulatedNetworkTest : public testing::TestWithParam<std::string> {};

TEST_P(SimulatedNetworkTest, DelaysAndReorderingChangeNoBit) {
  for (const std::uint32_t m : {3u, 8u}) {
    const Result expected = run("afab", 1, m, 1);
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      SCOPED_TRACE(fmt::format("m={} seed={}", m, seed));
      try {
        EXPECT_EQ(expected, run(GetParam(), 4, m, seed));
      } catch (const ScheduleError&) {
        EXPECT_EQ(GetParam(), "dualpipe_v");
        EXPECT_LT(m, 8u);
      }
    }
  }
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const ScheduleInfo& schedule : all_schedules()) all.emplace_back(schedule.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(EverySchedule, SimulatedNetworkTest, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param == "1f1b" ? "one_f_one_b" : test.param; });

TEST(SimulatedNetworkTest, ARankThatDiesEndsTheOthers) {
  SimulatedNetwork network(3, 7);
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<Transport*> pointers;
  for (std::uint32_t r = 0; r < 3; ++r) {
    transports.push_back(network.transport(r));
    pointers.push_back(transports.back().get());
  }
  int steps = 0;
  HandStepped pipeline(toy::toy_plan("1f1b", 3, 4), {}, pointers, [&] {
    if (++steps == 5) network.kill(2);
    return network.step();
  });
  ToyBatch batch(1, 4);
  EXPECT_THROW(pipeline.train(1, batch), PeerFailure);
}

TEST(SimulatedNetworkTest, ALostMessageIsAStandstillNotAWrongNumber) {
  SimulatedNetwork network(2, 3);
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<Transport*> pointers;
  for (std::uint32_t r = 0; r < 2; ++r) {
    transports.push_back(network.transport(r));
    pointers.push_back(transports.back().get());
  }
  network.lose([](std::uint32_t, std::uint32_t, const MessageHeader& header) {
    return header.kind == MessageKind::gradient && header.microbatch == 2;
  });
  HandStepped pipeline(toy::toy_plan("1f1b", 2, 4), {}, pointers, [&] { return network.step(); });
  ToyBatch batch(1, 4);
  try {
    pipeline.train(1, batch);
    FAIL() << "went on without the message";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(
        e.what(),
        "the pipeline stands still; rank 0 waits for the gradient of 1B2 from rank 1; rank 1 waits for the "
        "other ranks at the end of the step");
  }
}

}  // namespace
}  // namespace weft
