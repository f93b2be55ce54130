#include "weft/scheduling/orders/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "golden.h"
#include "weft/base/error.h"
#include "weft/scheduling/placement.h"

namespace weft {
namespace {

using testing::HasSubstr;

std::string refusal(const ScheduleRequest& request) {
  try {
    (void)make_schedule(request);
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "";
}

TEST(Placement, gives_every_stage_to_one_rank_and_knows_the_inverse) {
  for (std::uint32_t p = 1; p <= 5; ++p)
    for (std::uint32_t v = 1; v <= 4; ++v)
      for (const Placement placement : {Placement::loop, Placement::fold}) {
        std::vector<int> owners(p * v, 0);
        for (std::uint32_t rank = 0; rank < p; ++rank) {
          const auto stages = place_stages(p, v, placement)[rank];
          EXPECT_TRUE(std::is_sorted(stages.begin(), stages.end()));
          for (const std::uint16_t stage : stages) {
            ++owners[stage];
            EXPECT_EQ(rank_of(stage, p, placement), rank);
          }
        }
        EXPECT_THAT(owners, testing::Each(1));
      }
  std::vector<std::uint32_t> fold;
  for (std::uint32_t stage = 0; stage < 12; ++stage) fold.push_back(rank_of(stage, 4, Placement::fold));
  EXPECT_THAT(fold, testing::ElementsAre(0, 1, 2, 3, 3, 2, 1, 0, 0, 1, 2, 3));
}

TEST(Schedules, are_found_by_name_alias_and_the_names_of_PyTorch) {
  const std::map<std::string, std::string> names{{"afab", "afab"},
                                                 {"GPipe", "afab"},
                                                 {"1F1B", "1f1b"},
                                                 {"Interleaved1F1B", "interleaved_1f1b"},
                                                 {"interleaved-1f1b", "interleaved_1f1b"},
                                                 {"LoopedBFS", "looped_bfs"},
                                                 {"zb1p", "zb_h1"},
                                                 {"InterleavedZeroBubble", "zb_h1"},
                                                 {"ZB-H2", "zb_h2"},
                                                 {"ZBVZeroBubble", "zbv"},
                                                 {"DualPipeV", "dualpipe_v"},
                                                 {"Schedule1F1B", "1f1b"},
                                                 {"ScheduleGPipe", "afab"},
                                                 {"ScheduleInterleaved1F1B", "interleaved_1f1b"},
                                                 {"ScheduleLoopedBFS", "looped_bfs"},
                                                 {"ScheduleInterleavedZeroBubble", "zb_h1"},
                                                 {"ScheduleZBVZeroBubble", "zbv"},
                                                 {"ScheduleDualPipeV", "dualpipe_v"},
                                                 {"schedule_1f1b", "1f1b"},
                                                 {"v_half", "v_half"},
                                                 {"V-Min", "v_min"},
                                                 {"ready_first", "ready_first"}};
  for (const auto& [name, canonical] : names) {
    ASSERT_NE(find_schedule(name), nullptr) << name;
    EXPECT_EQ(find_schedule(name)->name, canonical);
  }
  for (const ScheduleInfo& info : all_schedules()) EXPECT_EQ(find_schedule(info.name), &info);
  EXPECT_EQ(find_schedule("1f1bx"), nullptr);
  EXPECT_EQ(find_schedule(""), nullptr);
  EXPECT_EQ(find_schedule("Schedule"), nullptr);
  EXPECT_EQ(find_schedule("ScheduleScheduleGPipe"), nullptr);
}

TEST(Schedules, an_unknown_name_is_answered_with_the_nearest_one_and_the_list) {
  const std::string text = refusal({.schedule = "1f2b", .ranks = 2, .microbatches = 2});
  EXPECT_THAT(text, HasSubstr("did you mean '1f1b'"));
  EXPECT_THAT(text, HasSubstr("afab, 1f1b, interleaved_1f1b"));
  EXPECT_THAT(refusal({.schedule = "Schedule1F2B", .ranks = 2, .microbatches = 2}),
              HasSubstr("did you mean '1f1b'"));
  EXPECT_THAT(refusal({.schedule = "quicksort", .ranks = 2, .microbatches = 2}),
              testing::Not(HasSubstr("did you mean")));
}

TEST(Schedules, what_cannot_run_is_refused_with_the_rule_and_the_nearest_value) {
  EXPECT_THAT(refusal({.schedule = "dualpipe_v", .ranks = 4, .microbatches = 7}), HasSubstr("nearest: 8"));
  EXPECT_THAT(refusal({.schedule = "zbv", .ranks = 4, .chunks = 1, .microbatches = 8}),
              HasSubstr("exactly 2"));
  EXPECT_THAT(refusal({.schedule = "interleaved_1f1b", .ranks = 4, .chunks = 1, .microbatches = 8}),
              HasSubstr("at least 2"));
  EXPECT_THAT(refusal({.schedule = "1f1b", .ranks = 4, .chunks = 2, .microbatches = 8}),
              HasSubstr("nearest: 1"));
  EXPECT_THAT(refusal({.schedule = "afab", .ranks = 0, .microbatches = 8}), HasSubstr("ranks is 0"));
  EXPECT_THAT(refusal({.schedule = "afab", .ranks = 2, .microbatches = 0}), HasSubstr("micro-batches is 0"));
  EXPECT_THAT(refusal({.schedule = "looped_bfs", .ranks = 60000, .chunks = 2, .microbatches = 1}),
              HasSubstr("at most 65535"));
  EXPECT_THAT(refusal({.schedule = "afab", .ranks = 60000, .microbatches = 4000000000}),
              HasSubstr("too many"));
  EXPECT_THAT(refusal({.schedule = "zb_h1", .ranks = 2, .microbatches = 2, .stages_split_backward = false}),
              HasSubstr("cannot"));
  EXPECT_THAT(
      refusal({.schedule = "looped_bfs", .ranks = 2, .microbatches = 2, .stages_split_backward = false}),
      HasSubstr("cannot"))
      << "its B runs as I and W";
  EXPECT_EQ(
      refusal({.schedule = "looped_bfs", .ranks = 2, .microbatches = 1, .stages_split_backward = false}), "");
}

TEST(Schedules, what_is_suggested_works) {
  for (const char* name : {"zb_h1", "interleaved_1f1b", "looped_bfs", "ready_first"})
    for (const std::uint32_t chunks : {33u, 65536u, 4000000000u}) {
      ScheduleRequest request{.schedule = name, .ranks = 2000, .chunks = chunks, .microbatches = 1};
      EXPECT_THAT(refusal(request), HasSubstr("nearest: 32 stages per rank")) << name;
      request.chunks = 32;
      EXPECT_EQ(refusal(request), "") << name;
    }
  EXPECT_THAT(refusal({.schedule = "zb_h1", .ranks = 2, .chunks = 65536, .microbatches = 1}),
              HasSubstr("nearest: 32767 stages per rank"));
  EXPECT_THAT(refusal({.schedule = "zbv", .ranks = 65535, .microbatches = 1}),
              HasSubstr("nearest: 32767 ranks"));
  EXPECT_EQ(refusal({.schedule = "1f1b", .ranks = 65535, .microbatches = 1}), "");
  EXPECT_THAT(refusal({.schedule = "1f1b", .ranks = 65535, .microbatches = 1u << 24}),
              HasSubstr("nearest: 21845 micro-batches"));
}

TEST(Schedules, max_in_flight_below_the_peak_is_refused_with_the_smallest_that_works) {
  EXPECT_THAT(refusal({.schedule = "1f1b", .ranks = 4, .microbatches = 8, .max_in_flight = 3}),
              testing::AllOf(HasSubstr("0F3"), HasSubstr("works: 4")));
  EXPECT_EQ(refusal({.schedule = "1f1b", .ranks = 4, .microbatches = 8, .max_in_flight = 4}), "");
  EXPECT_THAT(
      refusal({.schedule = "ready_first", .ranks = 4, .chunks = 2, .microbatches = 8, .max_in_flight = 1}),
      HasSubstr("works: 2"));
}

TEST(Schedules, a_file_is_a_schedule_too_and_must_fit_the_run) {
  const std::string file = golden::path("zbv_p4_m8.csv");
  const Schedule custom = make_schedule({.schedule = file});
  const Schedule generated = make_schedule({.schedule = "zbv", .ranks = 4, .microbatches = 8});
  EXPECT_EQ(custom.order, generated.order);
  EXPECT_EQ(custom.rank_of, generated.rank_of);
  EXPECT_EQ(custom.stages_of, generated.stages_of);
  EXPECT_TRUE(custom.splits_backward);
  EXPECT_EQ(refusal({.schedule = file, .ranks = 4, .chunks = 2, .microbatches = 8}), "");
  EXPECT_THAT(refusal({.schedule = file, .ranks = 2}), HasSubstr("for 4 ranks, but there are 2"));
  EXPECT_THAT(refusal({.schedule = file, .microbatches = 9}), HasSubstr("for 8 micro-batches"));
  EXPECT_THAT(refusal({.schedule = "/nowhere/at/all.csv"}), HasSubstr("cannot be read"));
}

}  // namespace
}  // namespace weft
