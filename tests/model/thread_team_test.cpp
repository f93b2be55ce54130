#include "weft/model/ops/cpu/thread_team.h"

#include <gtest/gtest.h>
#include <xmmintrin.h>

#include <atomic>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "weft/base/error.h"
#include "weft/tests/support/allocation_count.h"

namespace weft::cpu {
namespace {

TEST(ThreadTeam, RunsEveryBlockOnceWhateverTheNumberOfThreads) {
  for (const int threads : {1, 2, 3}) {
    ThreadTeam team(threads);
    for (const std::size_t blocks : {0u, 1u, 2u, 7u, 1000u}) {
      std::vector<std::atomic<int>> runs(blocks);
      team.parallel_for(blocks, [&](std::size_t block) { runs[block].fetch_add(1); });
      for (const auto& run : runs) EXPECT_EQ(run.load(), 1);
    }
  }
}

TEST(ThreadTeam, ResultsOfManyShortLoopsAreSeenByTheCaller) {
  ThreadTeam team(3);
  std::vector<std::size_t> last(5);
  for (std::size_t round = 1; round <= 20'000; ++round) {
    team.parallel_for(last.size(), [&](std::size_t block) { last[block] = round; });
    for (const std::size_t seen : last) ASSERT_EQ(seen, round);
  }
}

TEST(ThreadTeam, HelpersWakeUpAgainAfterTheyWentToSleep) {
  ThreadTeam team(2);
  std::atomic<bool> helper_came{false};
  for (int round = 0; round < 3; ++round) {
    // Longer than helpers spin; the loop below ends only when a helper has taken a block.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    helper_came = false;
    const auto caller = std::this_thread::get_id();
    team.parallel_for(2, [&](std::size_t) {
      if (std::this_thread::get_id() != caller) {
        helper_came = true;
      } else {
        while (!helper_came) std::this_thread::yield();
      }
    });
    EXPECT_TRUE(helper_came);
  }
}

TEST(ThreadTeam, CarriesTheFirstExceptionToTheCallerAndStaysUsable) {
  for (const int threads : {1, 3}) {
    ThreadTeam team(threads);
    std::atomic<int> begun{0};
    EXPECT_THROW(team.parallel_for(10'000,
                                   [&](std::size_t) {
                                     begun.fetch_add(1);
                                     throw std::out_of_range("block");
                                   }),
                 std::out_of_range);
    EXPECT_LE(begun.load(), threads);  // blocks not yet begun are left out
    std::atomic<int> runs{0};
    team.parallel_for(10, [&](std::size_t) { runs.fetch_add(1); });
    EXPECT_EQ(runs.load(), 10);
  }
}

TEST(ThreadTeam, ALoopInsideABlockRunsOnThatThread) {
  ThreadTeam team(3);
  std::atomic<int> strangers{0};
  std::atomic<int> runs{0};
  team.parallel_for(8, [&](std::size_t) {
    const auto thread = std::this_thread::get_id();
    team.parallel_for(4, [&](std::size_t) {
      runs.fetch_add(1);
      if (std::this_thread::get_id() != thread) strangers.fetch_add(1);
    });
  });
  EXPECT_EQ(runs.load(), 32);
  EXPECT_EQ(strangers.load(), 0);
}

TEST(ThreadTeam, PollsOnTheCallingThreadOnly) {
  struct Seen {
    std::set<std::thread::id> threads;
    int polls = 0;
  } seen;
  for (const int threads : {1, 3}) {
    ThreadTeam team(threads);
    seen.polls = 0;
    team.set_poll({[](void* argument) {
                     auto& calls = *static_cast<Seen*>(argument);
                     calls.threads.insert(std::this_thread::get_id());
                     ++calls.polls;
                   },
                   &seen});
    while (seen.polls < 3)
      team.parallel_for(100, [](std::size_t) { std::this_thread::yield(); });          // between blocks
    while (seen.polls < 6) team.parallel_for(100, [&](std::size_t) { team.poll(); });  // and inside one
    team.set_poll({});
  }
  EXPECT_EQ(seen.threads, std::set<std::thread::id>{std::this_thread::get_id()});
}

TEST(ThreadTeam, EveryThreadFlushesDenormals) {
  std::thread other([] {
    _mm_setcsr(0x1f80);  // as a thread starts
    ThreadTeam team(3);
    std::atomic<int> wrong{0};
    volatile float smallest = 1.2e-38f;
    _mm_setcsr(0x1f80);  // changed by someone between construction and use
    team.parallel_for(100, [&](std::size_t) {
      volatile float half = smallest * 0.5f;
      if (half != 0.0f || (_mm_getcsr() & ~0x3fu) != 0x9fc0) wrong.fetch_add(1);
    });
    EXPECT_EQ(wrong.load(), 0);
  });
  other.join();
}

TEST(ThreadTeam, AllocatesNothingAfterConstruction) {
  ThreadTeam team(3);
  std::atomic<std::size_t> sum{0};
  const auto loop = [&] { team.parallel_for(100, [&](std::size_t block) { sum.fetch_add(block); }); };
  loop();
  const std::uint64_t before = test::allocations();
  for (int i = 0; i < 100; ++i) loop();
  EXPECT_EQ(test::allocations(), before);
}

TEST(ThreadTeam, RefusesFewerThanOneThread) { EXPECT_THROW(ThreadTeam(0), Error); }

}  // namespace
}  // namespace weft::cpu
