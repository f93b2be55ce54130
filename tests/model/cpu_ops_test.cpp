#include "weft/model/ops/cpu/cpu_ops.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "weft/base/error.h"
#include "weft/model/ops/poll_while.h"

namespace weft {
namespace {

TEST(MakeOps, SharesTheThreadsOfItsQueue) {
  const auto queue = make_queue({});
  const auto team = cpu::team_of(*queue, 2);
  EXPECT_EQ(team->threads(), 2);
  const auto first = make_ops<float>(*queue, {.threads = 2});
  const auto second = make_ops<BFloat16>(*queue, {.threads = 2});
  EXPECT_EQ(cpu::team_of(*queue, 2), team);
  EXPECT_EQ(team.use_count(), 4);  // this one, the queue, the ops
  const auto other = make_queue({});
  EXPECT_NE(cpu::team_of(*other, 2), team);
  EXPECT_EQ(cpu::team_of(*queue, 3)->threads(), 3);
}

TEST(MakeOps, RefusesAnotherDeviceThanTheQueues) {
  const auto queue = make_queue({});
  EXPECT_THROW(static_cast<void>(make_ops<float>(*queue, {.device = DeviceKind::cuda})), DeviceError);
  EXPECT_THROW(static_cast<void>(make_op_sizes<float>({.device = DeviceKind::cuda})), DeviceError);
  EXPECT_THROW(static_cast<void>(make_ops<float>(*queue, {.threads = 0})), Error);
}

TEST(PollWhile, PollsDuringOpsUntilItsScopeEnds) {
  const auto queue = make_queue({});
  const auto ops = make_ops<float>(*queue, {});
  int polls = 0;
  const Poll poll{.function = [](void* count) { ++*static_cast<int*>(count); }, .argument = &polls};
  const std::vector<float> x(1 << 16, 1.0f);
  std::vector<float> y(x.size());
  const auto work = [&] { ops->add(x.data(), x.data(), y.data(), 1024, 64); };
  {
    // Until a poll has come, or for ever if none does: it is due after a time, not after a number of ops.
    const PollWhile scope(*ops, poll);
    while (polls == 0) work();
  }
  const int before = polls;
  for (int i = 0; i < 20; ++i) work();
  EXPECT_EQ(polls, before);
}

TEST(CpuOps, LeavesTheMeanLossWhereItIsTold) {
  const auto queue = make_queue({});
  const auto ops = make_ops<float>(*queue, {});
  std::vector<float> logits(2 * 4, 0.0f);
  const std::vector<std::int32_t> targets{1, 3};
  std::vector<double> losses(2);
  double mean = 0;
  ops->cross_entropy(logits.data(), targets.data(), 1.0f, logits.data(), losses.data(), &mean, 2, 4);
  EXPECT_NEAR(mean, std::log(4.0), 1e-6);
  EXPECT_EQ(mean, (losses[0] + losses[1]) / 2);
}

}  // namespace
}  // namespace weft
