#include "weft/scheduling/simulation/timeline.h"

#include <gtest/gtest.h>

#include <tuple>

namespace weft {
namespace {

TEST(RankTimeline, ops_come_back_with_their_times) {
  const std::vector<std::tuple<Op, Nanoseconds, Nanoseconds>> ops{
      {{0, 7, OpKind::forward, false}, 0, 0},
      {{UINT32_MAX, 65535, OpKind::backward_weight, true}, 5, 1'000'000'000'000'000'000},
      {{1, 0, OpKind::backward, false}, 3, 130},  // as a file may say: before the other one's end
      {{127, 0, OpKind::backward_input, true}, 130, 131},
      {{16, 1, OpKind::forward, false}, 1'000'131, 2'000'131}};
  RankTimeline timeline;
  timeline.expect(2);
  RankOrder order;
  for (const auto& [op, start, end] : ops) {
    timeline.add(op, start, end);
    order.push_back(op);
  }
  std::vector<std::tuple<Op, Nanoseconds, Nanoseconds>> seen;
  timeline.for_each(
      [&](const Op& op, Nanoseconds start, Nanoseconds end) { seen.emplace_back(op, start, end); });
  EXPECT_EQ(seen, ops);
  EXPECT_EQ(timeline.order(), order);
}

}  // namespace
}  // namespace weft
