#include "weft/model/thread_team_of_thread.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace weft {
namespace {

TEST(ThreadTeamOfThisThread, is_one_for_all_callers_on_a_thread_and_another_on_another) {
  cpu::ThreadTeam& team = thread_team_of_this_thread(2);
  EXPECT_EQ(team.threads(), 2);
  EXPECT_EQ(&thread_team_of_this_thread(2), &team);
  std::thread([&] { EXPECT_NE(&thread_team_of_this_thread(2), &team); }).join();
  EXPECT_EQ(thread_team_of_this_thread(3).threads(), 3);
}

TEST(PollWhile, polls_between_blocks_until_its_scope_ends) {
  cpu::ThreadTeam& team = thread_team_of_this_thread(1);
  int polls = 0;
  const cpu::Poll poll{.function = [](void* count) { ++*static_cast<int*>(count); }, .argument = &polls};
  // Until a poll has come, or for ever if none does: the poll is due after a time, not after a number of
  // blocks.
  const auto work = [&](std::size_t) {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::microseconds(20)) {
    }
  };
  {
    const PollWhile scope(team, poll);
    while (polls == 0) team.parallel_for(100, work);
  }
  const int before = polls;
  team.parallel_for(100, work);
  EXPECT_EQ(polls, before);
}

}  // namespace
}  // namespace weft
