#include "weft/scheduling/orders/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden.h"
#include "weft/base/error.h"
#include "weft/base/random.h"
#include "weft/scheduling/policies/ordered_policy.h"
#include "weft/scheduling/simulation/simulator.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& csv) {
  try {
    (void)check_order(read_order(csv, "my.csv"));
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "";
}

TEST(Check, a_good_order_is_accepted) {
  EXPECT_EQ(refusal("0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1\n"), "");
  EXPECT_EQ(refusal("0F0,0I0,0W0\n"), "");
}

TEST(Check, every_broken_rule_is_named_with_the_cell) {
  EXPECT_THAT(refusal("0F0,0B0,1F0,1B0\n1F1,1B1\n"),
              AllOf(HasSubstr("stage 1 is on two ranks"), HasSubstr("row 1, column 3 '1F0'"),
                    HasSubstr("row 2, column 1 '1F1'")));
  EXPECT_THAT(refusal("0F0,0B0\n2F0,2B0\n"), HasSubstr("stage 1 is missing"));
  EXPECT_THAT(refusal("0F0,0B0,0F0\n"), AllOf(HasSubstr("row 1, column 3 '0F0'"), HasSubstr("repeated")));
  EXPECT_THAT(refusal("0F0,0B0,0I0,0W0\n"), HasSubstr("column 3 '0I0' repeats a part"));
  EXPECT_THAT(refusal("0F0,0B0,0F1\n"), HasSubstr("0B1 is missing"));
  EXPECT_THAT(refusal("0F0,0I0,0W0,0F1,0I1\n"), HasSubstr("0W1 is missing"));
  EXPECT_THAT(refusal("0F0,0I0,0W0,0F1,0W1\n"), HasSubstr("0I1 is missing"));
  EXPECT_THAT(refusal("0F0,0B0,0F2,0B2\n"), HasSubstr("0F1 is missing"));
  EXPECT_THAT(refusal("0F0,0B0,0F16000000,0B16000000\n"), HasSubstr("0F1 is missing"));
  EXPECT_THAT(refusal("0F0,0B1,0B0,0F1\n"), HasSubstr("row 1, column 2 '0B1' comes before 0F1"));
  EXPECT_THAT(refusal("# a comment\n\n0F0,0W0,0I0\n"), HasSubstr("row 3, column 2 '0W0' comes before 0I0"));
}

TEST(Check, ranks_that_wait_for_each_other_are_shown_as_a_chain) {
  const std::string text = refusal("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n");
  EXPECT_THAT(text, HasSubstr("row 1, column 2 '0B0' waits for row 2, column 4 '1B0', which stands behind"));
  EXPECT_THAT(text, HasSubstr("row 2, column 1 '1F1' waits for row 1, column 3 '0F1', which stands behind"));
}

TEST(Check, a_rank_that_waits_for_itself_is_found_too) {
  EXPECT_THAT(refusal("1F0,0F0,1B0,0B0\n"), HasSubstr("'1F0' waits for row 1, column 2 '0F0'"));
}

// Two ops of a good order change places: the checker accepts exactly what the simulator can play to its end.
TEST(Check, accepts_exactly_what_can_be_played_to_the_end) {
  const CounterRandom random(1, RandomPurpose::test, 0);
  int accepted = 0;
  int refused = 0;
  std::uint64_t draw = 0;
  for (const char* name : {"1f1b", "zb_h1", "interleaved_1f1b", "zbv", "v_min"})
    for (int trial = 0; trial < 300; ++trial) {
      const Schedule good = make_schedule({.schedule = name, .ranks = 3, .microbatches = 4});
      Schedule changed = good;
      RankOrder& list = changed.order[random.below(3, draw++)];
      const auto at = random.below(static_cast<std::uint32_t>(list.size()) - 4, draw++);
      std::swap(list[at], list[at + 1 + random.below(3, draw++)]);
      bool plays = true;
      try {
        SimulationSettings settings;
        (void)simulate_published(changed, settings);
      } catch (const ScheduleError&) {
        plays = false;
      }
      bool passes = true;
      try {
        (void)check_order(to_order_text(changed.order, name));
      } catch (const ScheduleError&) {
        passes = false;
      }
      EXPECT_EQ(passes, plays) << to_csv(changed.order);
      ++(passes ? accepted : refused);
    }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 200);
}

TEST(Check, the_smallest_number_of_slots_plays_and_one_less_does_not) {
  for (const char* name : {"afab", "1f1b", "zb_h2", "looped_bfs", "dualpipe_v", "v_half"}) {
    const Schedule schedule = make_schedule({.schedule = name, .ranks = 3, .microbatches = 7});
    const std::uint32_t slots = smallest_slots(schedule);
    SimulationSettings settings;
    settings.slots = {slots};
    EXPECT_NO_THROW((void)simulate(schedule, settings)) << name;
    EXPECT_NO_THROW(check_slots(schedule, slots));
    settings.slots = {slots - 1};
    EXPECT_THROW((void)simulate(schedule, settings), ScheduleError) << name;
    EXPECT_THROW(check_slots(schedule, slots - 1), ScheduleError);
  }
}

TEST(Check, an_order_without_enough_slots_is_shown_at_the_cell_that_never_gets_one) {
  const OrderText text = read_order("0F0,0F1,0F2,0B0,0B1,0B2\n", "my.csv");
  try {
    check_slots(check_order(text), 2, &text);
    FAIL();
  } catch (const ScheduleError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("row 1, column 3 '0F2'"), HasSubstr("smallest number that works: 3")));
  }
}

TEST(Check, a_standstill_in_the_simulator_says_who_is_left) {
  const Schedule schedule = make_schedule({.schedule = "1f1b", .ranks = 2, .microbatches = 4});
  SimulationSettings settings;
  settings.slots = {1};
  try {
    (void)simulate(schedule, settings);
    FAIL();
  } catch (const ScheduleError& error) {
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("nothing can run any more"), HasSubstr("rank 0"), HasSubstr("1 of 1 slots")));
  }
}

}  // namespace
}  // namespace weft
