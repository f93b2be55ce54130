#include "weft/scheduling/orders/communication_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "golden.h"
#include "weft/base/error.h"
#include "weft/base/random.h"
#include "weft/scheduling/orders/check.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Cells = std::vector<std::vector<std::string>>;  // [rank]

std::string refusal(const std::string& csv) {
  try {
    (void)check_order(read_order(csv, "my.csv"));
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

Cells split(const std::string& csv) {
  Cells rows;
  std::istringstream lines(csv);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

std::string joined(const Cells& rows) {
  std::string csv;
  for (const auto& row : rows)
    for (const std::string& cell : row) csv += cell + (&cell == &row.back() ? "\n" : ",");
  return csv;
}

const std::string good = "0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0\n";

TEST(CommunicationCheck, a_message_has_its_two_cells_around_its_ops_once) {
  ASSERT_EQ(refusal(good), "");
  EXPECT_THAT(refusal(replaced(good, "0F0,0SEND_F0", "0SEND_F0,0F0")),
              HasSubstr("row 1, column 1 '0SEND_F0': is sent before row 1, column 2 '0F0' has run"));
  EXPECT_THAT(refusal(replaced(good, "1B0,1SEND_B0", "1SEND_B0,1B0")),
              HasSubstr("row 2, column 3 '1SEND_B0': is sent before row 2, column 4 '1B0' has run"));
  EXPECT_THAT(refusal(replaced(good, "1RECV_F0,1F0", "1F0,1RECV_F0")),
              HasSubstr("row 2, column 1 '1F0': runs before row 2, column 2 '1RECV_F0'"));
  EXPECT_THAT(refusal(replaced(good, "0RECV_B0,0B0", "0B0,0RECV_B0")),
              HasSubstr("row 1, column 3 '0B0': runs before row 1, column 4 '0RECV_B0'"));
  for (const std::string cell : {"0SEND_F0", "0RECV_B0", "1RECV_F0", "1SEND_B0"}) {
    EXPECT_THAT(refusal(replaced(good, cell, "")), HasSubstr(cell + " is missing"));
    EXPECT_THAT(refusal(replaced(good, cell, cell + "," + cell)), HasSubstr("'" + cell + "': is repeated"));
  }
  const std::string split_backward = replaced(good, "1B0,1SEND_B0", "1I0,1SEND_B0,1W0");
  EXPECT_EQ(refusal(split_backward), "");
  EXPECT_THAT(refusal(replaced(split_backward, "1I0,1SEND_B0", "1SEND_B0,1I0")), HasSubstr("is sent before"));
}

TEST(CommunicationCheck, a_message_that_nobody_makes_or_needs_is_refused) {
  const auto with = [](const std::string& cell) {
    return refusal(replaced(good, "0SEND_F0", "0SEND_F0," + cell));
  };
  EXPECT_THAT(with("0RECV_B1"), HasSubstr("row 1, column 3 '0RECV_B1': there is no such op"));
  EXPECT_THAT(with("0SEND_F16777215"), HasSubstr("there is no such op"));
  EXPECT_THAT(with("1SEND_B0"), HasSubstr("'1SEND_B0': stage 1 is not on this rank"));
  EXPECT_THAT(with("0SEND_B0"), HasSubstr("no stage on the other side"));
  EXPECT_THAT(with("0RECV_F0"), HasSubstr("no stage on the other side"));
  EXPECT_THAT(with("7SEND_F0"), HasSubstr("'7SEND_F0': there is no stage 7; the last one is 1"));
  EXPECT_THAT(refusal("0F0,0SEND_F0,1RECV_F0,1F0,1B0,0B0\n"), HasSubstr("nothing is sent"));
}

TEST(CommunicationCheck, a_wait_for_a_send_stands_behind_it_once) {
  const std::string waits =
      replaced(replaced(good, "0B0", "0B0,0WAIT_SEND_F0"), "1SEND_B0", "1SEND_B0,1WAIT_SEND_B0");
  EXPECT_EQ(refusal(waits), "");
  EXPECT_EQ(refusal(replaced(waits, ",1WAIT_SEND_B0", "")), "") << "weft frees its buffers itself";
  EXPECT_THAT(
      refusal(replaced(good, "0SEND_F0", "0WAIT_SEND_F0,0SEND_F0")),
      HasSubstr("row 1, column 2 '0WAIT_SEND_F0': no SEND of this stage and micro-batch stands before it"));
  EXPECT_THAT(refusal(replaced(good, "0B0", "0B0,0WAIT_SEND_B0")), HasSubstr("'0WAIT_SEND_B0': no SEND"));
  EXPECT_THAT(refusal(replaced(waits, "0WAIT_SEND_F0", "0WAIT_SEND_F0,0WAIT_SEND_F0")),
              HasSubstr("'0WAIT_SEND_F0': is repeated, see row 1, column 5"));
  EXPECT_THAT(refusal(replaced(good, "0B0", "0B0,1WAIT_SEND_F0")), HasSubstr("stage 1 is not on this rank"));
  EXPECT_THAT(refusal(replaced(good, "0B0", "0B0,0WAIT_SEND_F7")), HasSubstr("there is no such op"));
  EXPECT_THAT(refusal(replaced(good, "0B0", "0B0,0WAIT_SEND_F")), HasSubstr("the micro-batch is missing"));
}

TEST(CommunicationCheck, a_wait_that_no_receive_can_end_is_a_standstill) {
  // rank 0 waits for its send before rank 1 can post the receive, which stands behind a message of rank 0
  const std::string text = refusal(
      "0F0,0SEND_F0,0F1,0SEND_F1,0WAIT_SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1WAIT_SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n");
  EXPECT_THAT(text, AllOf(HasSubstr("row 1, column 5 '0WAIT_SEND_F1' waits for row 2, column 6 '1RECV_F1'"),
                          HasSubstr("row 2, column 5 '1WAIT_SEND_B0' waits for row 1, column 6 '0RECV_B0'")));
}

TEST(CommunicationCheck, what_pytorch_2_15_writes_is_read) {
  const OrderText text = read_order_file(golden::path("torch_2_15_1f1b_p2_m3_with_communication.csv"));
  const Schedule schedule = check_order(text);
  EXPECT_EQ(schedule.order, make_schedule({.schedule = "1f1b", .ranks = 2, .microbatches = 3}).order);
  EXPECT_THAT(schedule.remark, AllOf(HasSubstr("26 cells"), HasSubstr("WAIT_REDUCE_GRAD")));
}

TEST(CommunicationCheck, cells_about_weights_name_a_stage_of_their_rank) {
  EXPECT_EQ(refusal("0UNSHARD,0F0,0B0,0REDUCE_GRAD,0RESHARD\n1UNSHARD,1F0,1B0\n"), "");
  for (const std::string word : {"UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"}) {
    EXPECT_THAT(refusal("0F0,0B0,7" + word + "\n1F0,1B0\n"),
                HasSubstr("row 1, column 3 '7" + word + "': there is no stage 7"));
    EXPECT_THAT(refusal("0F0,0B0,1" + word + "\n1F0,1B0\n"), HasSubstr("stage 1 is not on this rank"));
  }
}

TEST(CommunicationCheck, a_standstill_is_shown_as_the_chain_of_cells) {
  const std::string text = refusal(replaced(good, "0SEND_F0,0RECV_B0", "0RECV_B0,0SEND_F0"));
  EXPECT_THAT(
      text,
      HasSubstr(
          "for ever:\n  row 1, column 2 '0RECV_B0' waits for row 2, column 4 '1SEND_B0', which stands behind"
          "\n  row 2, column 1 '1RECV_F0' waits for row 1, column 3 '0SEND_F0', which stands behind"
          "\n  row 1, column 2 '0RECV_B0'"));
  // Rank 0 only waits for a rank of the chain, so it is no part of it.
  const std::string three =
      "0F0,0SEND_F0,0RECV_B0,0B0\n"
      "1RECV_F0,1F0,1RECV_B0,1SEND_F0,1B0,1SEND_B0\n"
      "2RECV_F0,2F0,2B0,2SEND_B0\n";
  EXPECT_THAT(refusal(three), AllOf(HasSubstr("'1RECV_B0' waits for row 3, column 4 '2SEND_B0'"),
                                    testing::Not(HasSubstr("row 1"))));
}

/// The walk of PyTorch's simulator of schedules, over cells as text: a rank's next cell runs once what it
/// needs has been run. (B behind F and W behind I of the same stage are rules of weft's.)
bool plays_to_the_end(const Cells& rows, const std::vector<std::uint32_t>& rank_of) {
  std::vector<std::set<std::string>> done(rows.size());
  std::vector<std::size_t> head(rows.size(), 0);
  const auto ready = [&](std::size_t rank, const std::string& cell) {
    const std::size_t digits = cell.find_first_not_of("0123456789");
    const std::size_t last = cell.find_first_of("0123456789", digits);
    const std::size_t stage = std::stoul(cell.substr(0, digits));
    const std::string word = cell.substr(digits, last - digits);
    const std::string microbatch = cell.substr(last);
    const auto has = [&](std::size_t where, std::size_t of, const std::string& what) {
      return done[where].contains(std::to_string(of) + what + microbatch);
    };
    const auto backward = [&](std::size_t of) { return has(rank, of, "B") || has(rank, of, "I"); };
    const bool last_stage = stage + 1 == rank_of.size();
    if (word == "F") return stage == 0 || has(rank, stage, "RECV_F") || has(rank, stage - 1, "F");
    if (word == "B" || word == "I")
      return has(rank, stage, "F") && (last_stage || has(rank, stage, "RECV_B") || backward(stage + 1));
    if (word == "W") return has(rank, stage, "I");
    if (word == "SEND_F") return has(rank, stage, "F");
    if (word == "SEND_B") return backward(stage);
    if (word == "RECV_F") return has(rank_of[stage - 1], stage - 1, "SEND_F");
    return has(rank_of[stage + 1], stage + 1, "SEND_B");
  };
  for (bool moved = true; std::exchange(moved, false);)
    for (std::size_t rank = 0; rank < rows.size(); ++rank)
      for (; head[rank] < rows[rank].size() && ready(rank, rows[rank][head[rank]]);
           ++head[rank], moved = true)
        done[rank].insert(rows[rank][head[rank]]);
  for (std::size_t rank = 0; rank < rows.size(); ++rank)
    if (head[rank] < rows[rank].size()) return false;
  return true;
}

// A cell of a good file moves: the checker accepts exactly what can be played to its end.
TEST(CommunicationCheck, accepts_exactly_what_the_cells_in_sequence_can_play) {
  const CounterRandom random(1, RandomPurpose::test, 2);
  std::uint64_t draw = 0;
  int accepted = 0;
  int stood_still = 0;
  int refused = 0;
  for (const char* name : {"1f1b", "zb_h1", "interleaved_1f1b", "zbv", "v_min"}) {
    const Schedule schedule = make_schedule({.schedule = name, .ranks = 3, .microbatches = 4});
    const Cells rows = split(to_csv_with_communication(schedule.order, schedule.rank_of));
    ASSERT_TRUE(plays_to_the_end(rows, schedule.rank_of));
    for (int trial = 0; trial < 400; ++trial) {
      Cells changed = rows;
      auto& row = changed[random.below(3, draw++)];
      const auto from = random.below(static_cast<std::uint32_t>(row.size()) - 4, draw++);
      const auto to = from + 1 + random.below(4, draw++);
      std::rotate(row.begin() + from, row.begin() + from + 1, row.begin() + to + 1);
      const std::string why = refusal(joined(changed));
      EXPECT_EQ(why.empty(), plays_to_the_end(changed, schedule.rank_of)) << joined(changed) << why;
      ++(why.empty()                                              ? accepted
         : why.find("SEND and RECV in this") == std::string::npos ? refused
                                                                  : stood_still);
    }
  }
  EXPECT_GT(accepted, 200);
  EXPECT_GT(refused, 200);
  EXPECT_GT(stood_still, 50);
}

TEST(CommunicationCheck, fused_ops_send_and_receive_around_the_pair) {
  const Schedule schedule = make_schedule({.schedule = "dualpipe_v", .ranks = 2, .microbatches = 4});
  const std::string csv = to_csv_with_communication(schedule.order, schedule.rank_of);
  ASSERT_EQ(refusal(csv), "");
  // Stages 1 and 2 of rank 1 get everything from rank 0.
  Cells rows = split(csv);
  const auto fused =
      std::find_if(rows[1].begin(), rows[1].end(), [](const auto& cell) { return cell.starts_with("(1F"); });
  ASSERT_NE(fused, rows[1].end());
  const std::string needed = "2RECV_B" + fused->substr(fused->find(";2B") + 3, 1);
  const auto receive = std::find(rows[1].begin(), fused, needed);
  ASSERT_NE(receive, fused) << needed << *fused;
  std::rotate(receive, receive + 1, fused + 1);
  EXPECT_THAT(refusal(joined(rows)), HasSubstr("runs before"));
}

}  // namespace
}  // namespace weft
