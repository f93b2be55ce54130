#include "weft/scheduling/orders/order_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "golden.h"
#include "weft/base/error.h"
#include "weft/base/random.h"
#include "weft/scheduling/orders/check.h"
#include "weft/scheduling/orders/schedule.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Order read(const std::string& text) { return read_order(text, "my.csv").order; }

std::string refusal(const std::string& text) {
  try {
    (void)read(text);
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

TEST(OrderText, what_is_written_is_read_back_in_both_formats_and_in_the_old_spelling) {
  for (const golden::Case& c : golden::cases()) {
    EXPECT_EQ(read(to_csv(c.order)), c.order);
    const Schedule schedule = check_order(to_order_text(c.order, c.schedule));
    const OrderText messages = read_order(to_csv_with_communication(c.order, schedule.rank_of), "my.csv");
    EXPECT_EQ(check_order(messages).order, c.order) << c.schedule;
    if (!schedule.splits_backward) continue;
    const std::string old_spelling =
        replaced(replaced(replaced(to_csv(c.order), "B", "b"), "I", "B"), "b", "BW");
    EXPECT_EQ(read(replaced(old_spelling, "OVERLAP_F_BW", "OVERLAP_F_B")), c.order) << c.schedule;
  }
}

TEST(OrderText, messages_stand_behind_their_op_and_before_the_op_that_needs_them) {
  const Schedule schedule = make_schedule({.schedule = "1f1b", .ranks = 2, .microbatches = 2});
  EXPECT_EQ(to_csv_with_communication(schedule.order, schedule.rank_of),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1\n");
}

TEST(OrderText, idle_cells_comments_blanks_quotes_and_line_ends_do_not_matter) {
  const Order plain = read("0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(read("\xef\xbb\xbf# a schedule\r\n\r\n 0F0 ,,\t0F1, ,\"0B0\",0B1,,\r\n,1F0,1B0,1F1,1B1 # rank 1"),
            plain);
  const Order fused = read("0F0,1F0,( 0F1 ; 1B0 )OVERLAP_F_B,0B0,1F1,1B1,0B1");
  EXPECT_TRUE(fused[0][2].fused_with_next);
  EXPECT_FALSE(fused[0][3].fused_with_next);
  EXPECT_EQ(read("0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD"), read("0F0,0B0"));
}

TEST(OrderText, what_is_wrong_is_said_with_row_column_and_cell) {
  EXPECT_THAT(refusal("0F0,0B0\n1F0,1X0\n"),
              AllOf(HasSubstr("my.csv: row 2, column 2 '1X0'"), HasSubstr("not an op")));
  for (const char* cell : {"0F",
                           "F0",
                           "0f0",
                           "0F-1",
                           "0F0x",
                           "0.5F0",
                           "0FF0",
                           "0 F 0",
                           "(0F0;0B0)",
                           "(0F0)OVERLAP_F_B",
                           "(0F0;0F1)OVERLAP_F_B",
                           "(0F0;0W0)OVERLAP_F_B",
                           "0F0)",
                           ";",
                           "()",
                           "(;)OVERLAP_F_B",
                           "\"",
                           "0F4294967296",
                           "65535F0",
                           "99999999999999999999F0",
                           "0F16777216",
                           "0SEND_F"})
    EXPECT_THAT(refusal(std::string("0F0,0B0,") + cell + ",0B1\n"), HasSubstr("row 1, column 3")) << cell;
  EXPECT_THAT(refusal(std::string("0F0,\0\xff\x01", 7)), HasSubstr("row 1, column 2 '\\x00\\xff\\x01'"));
  EXPECT_THAT(refusal("0F0,0B0\n,,,\n"), HasSubstr("row 2 (rank 1) holds no op"));
  EXPECT_THAT(refusal("0F0,0B0\n1UNSHARD\n"), HasSubstr("rank 1"));
  EXPECT_THAT(refusal(""), HasSubstr("holds no op"));
  EXPECT_THAT(refusal("# nothing\n\n"), HasSubstr("holds no op"));
  EXPECT_THAT(refusal("0F0,0I0,0W0,0F1,0BW1\n"), HasSubstr("mixes I with the old spelling"));
}

TEST(OrderText, cells_about_communication_keep_their_place) {
  const OrderText text =
      read_order("0UNSHARD,0F0,,0SEND_F0, 0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n", "my.csv");
  ASSERT_EQ(text.communication[0].size(), 3u);
  EXPECT_EQ(text.place(0, text.communication[0][0]), "row 1, column 1 '0UNSHARD'");
  EXPECT_EQ(text.communication[0][0].ops_before, 0u);
  EXPECT_EQ(text.place(0, text.communication[0][2]), "row 1, column 5 '0RECV_B0'");
  EXPECT_EQ(text.communication[0][2].ops_before, 1u);
  EXPECT_EQ(text.place(1, text.communication[1][1]), "row 2, column 4 '1SEND_B0'");
}

TEST(OrderText, a_file_may_be_a_pipe_and_is_not_read_without_end) {
  const std::string text = "0F0,0B0\n";
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], text.data(), text.size()), static_cast<ssize_t>(text.size()));
  close(ends[1]);
  EXPECT_EQ(read_order_file("/dev/fd/" + std::to_string(ends[0])).order, read(text));
  close(ends[0]);
  for (const char* path : {"/dev/zero", "/", "/nowhere.csv"}) {
    try {
      (void)read_order_file(path);
      FAIL() << path;
    } catch (const ScheduleError& error) {
      EXPECT_THAT(error.what(), testing::AnyOf(HasSubstr("too many"), HasSubstr("Is a directory"),
                                               HasSubstr("No such file")));
    }
  }
}

TEST(OrderText, any_bytes_end_in_an_order_or_a_schedule_error) {
  const CounterRandom random(1, RandomPurpose::test, 1);
  std::string letters = "0123456789FIBW,\n ;()#\"\rSENDRECV_OVERLAPUNSHARD\xff";
  letters += '\0';
  std::uint64_t draw = 0;
  int read_well = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string text = trial % 2 == 0 ? "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n" : "";
    const std::uint32_t edits = 1 + random.below(4, draw++);
    for (std::uint32_t i = 0; i < edits; ++i) {
      const char letter = letters[random.below(static_cast<std::uint32_t>(letters.size()), draw++)];
      const auto at = random.below(static_cast<std::uint32_t>(text.size()) + 1, draw++);
      text.insert(at, 1, letter);
    }
    try {
      (void)check_order(read_order(text, "fuzz"));
      ++read_well;
    } catch (const ScheduleError&) {
    }
  }
  EXPECT_GT(read_well, 100);
}

TEST(OrderText, ten_megabytes_are_read_and_checked_without_trouble) {
  const Schedule schedule = make_schedule({.schedule = "1f1b", .ranks = 8, .microbatches = 90000});
  const std::string text = to_csv(schedule.order);
  ASSERT_GT(text.size(), 10u << 20);
  EXPECT_EQ(check_order(read_order(text, "large.csv")).order, schedule.order);
}

}  // namespace
}  // namespace weft
