#include "weft/scheduling/orders/orders.h"

#include <gtest/gtest.h>

#include "golden.h"
#include "weft/base/error.h"
#include "weft/scheduling/orders/check.h"
#include "weft/scheduling/orders/schedule.h"
#include "weft/scheduling/weight_turns.h"

namespace weft {
namespace {

std::string title(const golden::Case& c) {
  return c.schedule + " p=" + std::to_string(c.p) + " v=" + std::to_string(c.v) + " m=" + std::to_string(c.m);
}

TEST(Orders, equal_every_golden_order_op_by_op) {
  ASSERT_GE(golden::cases().size(), 97u);
  for (const golden::Case& c : golden::cases()) {
    const Schedule schedule =
        make_schedule({.schedule = c.schedule, .ranks = c.p, .chunks = c.v, .microbatches = c.m});
    EXPECT_EQ(to_csv(schedule.order), to_csv(c.order)) << title(c);
  }
}

// Every schedule, p, v and m that is not refused passes the checker, which knows nothing of the generators,
// within its bound on pairs in flight.
TEST(Orders, are_complete_and_free_of_deadlock_for_every_size) {
  int made = 0;
  for (const ScheduleInfo& info : all_schedules()) {
    if (info.dynamic) continue;
    for (std::uint32_t p = 1; p <= 6; ++p)
      for (std::uint32_t v = info.min_chunks; v <= std::min(3u, info.max_chunks); ++v)
        for (std::uint32_t m = 1; m <= 3 * p + 1; ++m) {
          if (info.name == "dualpipe_v" && m < 2 * p) continue;
          const std::string name(info.name);
          const Schedule schedule =
              make_schedule({.schedule = name, .ranks = p, .chunks = v, .microbatches = m});
          const Schedule checked = check_order(to_order_text(schedule.order, name));
          EXPECT_EQ(checked.rank_of, schedule.rank_of) << name << p << v << m;
          EXPECT_EQ(checked.stages_of, schedule.stages_of);
          EXPECT_EQ(checked.microbatches, m);
          for (const Op& op : schedule.order[0])
            EXPECT_TRUE(info.splits_backward || op.kind <= OpKind::backward);
          ++made;
        }
  }
  EXPECT_GT(made, 600);
}

std::vector<std::uint32_t> peaks(const std::string& name, std::uint32_t p, std::uint32_t v, std::uint32_t m) {
  return peak_in_flight(
      as_run(make_schedule({.schedule = name, .ranks = p, .chunks = v, .microbatches = m}).order));
}

TEST(Orders, keep_the_published_bounds_on_memory) {
  for (std::uint32_t p = 1; p <= 8; ++p)
    for (std::uint32_t m = 1; m <= 3 * p + 1; ++m)
      for (std::uint32_t r = 0; r < p; ++r) {
        EXPECT_EQ(peaks("afab", p, 1, m)[r], m);
        EXPECT_EQ(peaks("1f1b", p, 1, m)[r], std::min(m, p - r));
        EXPECT_EQ(peaks("looped_bfs", p, 2, m)[r], 2 * m);
        EXPECT_LE(peaks("zb_h1", p, 1, m)[r], p);
        EXPECT_LE(peaks("zb_h2", p, 1, m)[r], 2 * p - 1);
        EXPECT_LE(peaks("zbv", p, 2, m)[r], 2 * p);
        EXPECT_LE(peaks("v_half", p, 2, m)[r], 2 * ((p + 2) / 2));
        EXPECT_LE(peaks("v_min", p, 2, m)[r], 2 * ((p + 4) / 3));
        if (m >= 2 * p) {
          EXPECT_LE(peaks("dualpipe_v", p, 2, m)[r], 2 * p + 1);
        }
      }
}

TEST(Orders, groups_of_interleaved_schedules_differ_by_one_at_most) {
  EXPECT_EQ(orders::groups(4, 9), (std::vector<std::uint32_t>{5, 4}));
  EXPECT_EQ(orders::groups(4, 10), (std::vector<std::uint32_t>{5, 5}));
  EXPECT_EQ(orders::groups(4, 3), (std::vector<std::uint32_t>{3}));
  EXPECT_EQ(orders::groups(4, 15), (std::vector<std::uint32_t>{5, 5, 5}));
}

}  // namespace
}  // namespace weft
