// A launcher in a process of its own, with ranks that end in every way.
#include "weft/launch/supervise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "../support/paths.h"
#include "weft/tests/launch/launcher_process.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

Job job_of(std::uint32_t ranks, std::vector<std::string> actions) {
  Job job;
  job.program = weft::test::binary_dir() + "/tests/program/rank_stub";
  job.arguments = std::move(actions);
  job.arguments.insert(job.arguments.begin(), "rank_stub");
  job.mesh = Mesh(ranks, 1);
  return job;
}

class Supervise : public LauncherTest {};

TEST_F(Supervise, EndsWellWhenAllRanksHaveDoneTheirWork) {
  const Outcome outcome = run(job_of(3, {"join", "barrier", "done"}));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.err, "");
}

TEST_F(Supervise, EndsWellForProgramsThatAreNoRanks) { EXPECT_EQ(run(job_of(2, {"out=hello"})).status, 0); }

struct Ending {
  const char* action;
  const char* message;

  friend void PrintTo(const Ending& ending, std::ostream* out) { *out << ending.action; }
};

class SuperviseEndings : public Supervise, public testing::WithParamInterface<Ending> {};

TEST_P(SuperviseEndings, NameTheRankAndLeaveNothing) {
  const Outcome outcome = run(job_of(3, {"pid=" + pids(), "child=" + pids(), "join", "barrier",
                                         std::string("1:") + GetParam().action, "sleep"}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr(GetParam().message));
  expect_nothing_left(6);
}

INSTANTIATE_TEST_SUITE_P(
    All, SuperviseEndings,
    testing::Values(Ending{"exit=3", "weft: rank 1 ended with exit status 3\n"},
                    Ending{"abort", "weft: rank 1 was killed by signal 6 (SIGABRT)\n"},
                    Ending{"kill=9",
                           "weft: rank 1 was killed by signal 9 (SIGKILL), by somebody or by a kernel"},
                    Ending{"kill=7", "weft: rank 1 was killed by signal 7 (SIGBUS): a file that it reads"},
                    Ending{"kill=15", "weft: rank 1 was killed by signal 15 (SIGTERM)\n"},
                    Ending{"exit=0", "weft: rank 1 ended with exit status 0 before its work was done\n"},
                    Ending{"leave", "weft: the control connection of rank 1 ended before its work was done"},
                    Ending{"fail=the loss is nan", "weft: rank 1 failed: the loss is nan\n"},
                    Ending{"lost=2", "weft: rank 1 lost rank 2: no answer\n"}),
    [](const auto& ending) {
      std::string name = ending.param.action;
      std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
      return name;
    });

TEST_F(Supervise, RepeatsTheLastWordsOfARank) {
  const Outcome outcome = run(job_of(2, {"1:err=first", "1:err=out of luck", "1:exit=4", "sleep"}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("weft: rank 1 ended with exit status 4; its last words: out of luck\n"));
  EXPECT_THAT(outcome.err, HasSubstr("[rank 1] first\n[rank 1] out of luck\n"));
}

TEST_F(Supervise, TellsAllRanksTheFirstCause) {
  const Outcome outcome = run(job_of(3, {"join", "barrier", "2:fail=disk full", "2:exit=1", "hear-failure"}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("[rank 0] heard: rank 2 failed: disk full\n"),
                                 HasSubstr("[rank 1] heard: rank 2 failed: disk full\n")));
  EXPECT_THAT(outcome.err, Not(HasSubstr("rank 0")));
}

TEST_F(Supervise, TakesQuietEndsForFailuresOnlyWhereRanksMustJoin) {
  Job job = job_of(2, {"out=hello"});
  job.must_join = true;
  const Outcome outcome = run(job);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("ended with exit status 0 before its work was done"));
}

TEST_F(Supervise, DoesNotWaitForARankThatEndedWithoutJoining) {
  const Outcome outcome = run(job_of(2, {"0:exit=0", "join", "barrier"}));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("rank 0 ended with exit status 0 before its work was done"));
}

TEST_F(Supervise, EndsWhatARankLeavesBehindWhenItEndsWell) {
  EXPECT_EQ(run(job_of(2, {"child=" + pids(), "join", "done"})).status, 0);
  expect_nothing_left(2);
}

TEST_F(Supervise, FindsAStoppedRank) {
  Job job = job_of(3, {"pid=" + pids(), "join", "barrier", "1:kill=19", "sleep"});
  job.heartbeat_limit = 500ms;
  const Outcome outcome = run(job);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("weft: rank 1 has not answered for 500 ms (stopped or stuck)"));
  expect_nothing_left(3);
}

TEST_F(Supervise, FindsAStuckRank) {
  Job job = job_of(2, {"pid=" + pids(), "join", "barrier", "1:stuck=3F1", "1:spin", "sleep"});
  job.heartbeat_limit = 500ms;
  const Outcome outcome = run(job);
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("weft: rank 1 has been stuck for 500 ms: its actor gives no sign of "
                                     "life; last heard: 7 ops done, at 3F1"));
  expect_nothing_left(2);
}

TEST_F(Supervise, LeavesNothingWhenTheLauncherIsKilled) {
  start(job_of(3, {"child=" + pids(), "pid=" + pids(), "join", "barrier", "0:out=ready", "sleep"}));
  wait_for_output("ready");
  signal_launcher(SIGKILL);
  EXPECT_EQ(finish().status, 128 + SIGKILL);
  expect_nothing_left(6);
}

TEST_F(Supervise, AsksRanksToStopByMessage) {
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    Job job = job_of(2, {"join", "barrier", "0:out=ready", "wait-stop", "out=stopped", "done"});
    job.stop_by = StopBy::message;
    start(job);
    wait_for_output("ready");
    signal_launcher(number);
    const Outcome outcome = finish();
    EXPECT_EQ(outcome.status, 128 + number);
    EXPECT_THAT(outcome.out, AllOf(HasSubstr("[rank 0] stopped"), HasSubstr("[rank 1] stopped")));
    EXPECT_EQ(outcome.err, "");
  }
}

TEST_F(Supervise, SaysWhenARankFailsOnItsWayToAStop) {
  Job job =
      job_of(2, {"join", "barrier", "0:out=ready", "wait-stop", "1:fail=cannot save", "1:exit=1", "done"});
  job.stop_by = StopBy::message;
  start(job);
  wait_for_output("ready");
  signal_launcher(SIGTERM);
  const Outcome outcome = finish();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("rank 1 failed: cannot save"));
}

TEST_F(Supervise, PassesSignalsOnToOtherPrograms) {
  for (const int number : {SIGTERM, SIGINT}) {
    start(job_of(2, {"pid=" + pids(), "0:out=ready", "sleep"}));
    wait_for_output("ready");
    signal_launcher(number);
    EXPECT_EQ(finish().status, 128 + number);
  }
  start(job_of(1, {"exit0-on=10", "out=ready", "sleep"}));
  wait_for_output("ready");
  signal_launcher(SIGUSR1);
  EXPECT_EQ(finish().status, 0);
}

TEST_F(Supervise, KillsRanksThatDoNotStopInTime) {
  Job job = job_of(2, {"pid=" + pids(), "ignore=15", "join", "barrier", "0:out=ready", "sleep"});
  job.stop_limit = 50ms;
  start(job);
  wait_for_output("ready");
  signal_launcher(SIGTERM);
  const Outcome outcome = finish();
  EXPECT_EQ(outcome.status, 128 + SIGTERM);
  EXPECT_THAT(outcome.err, HasSubstr("weft: the ranks did not stop by themselves and were killed\n"));
  expect_nothing_left(2);
}

TEST_F(Supervise, KillsAtOnceWhenAskedAgainAndAgain) {
  start(job_of(2, {"pid=" + pids(), "ignore=2", "join", "barrier", "0:out=ready", "sleep"}));
  wait_for_output("ready");
  for (int i = 0; i < 3; ++i) {
    signal_launcher(SIGINT);
    wait_until_signal_was_taken();
  }
  const Outcome outcome = finish();
  EXPECT_THAT(outcome.err, testing::HasSubstr("asked again to stop"));
  EXPECT_EQ(outcome.status, 128 + SIGINT) << outcome.err;
  expect_nothing_left(2);
}

TEST_F(Supervise, TakesTwoSignalsInARowForOneWish) {
  Job job = job_of(
      2, {"pid=" + pids(), "join", "barrier", "0:out=ready", "wait-stop", "barrier", "out=stopped", "done"});
  job.stop_by = StopBy::message;
  start(job);
  wait_for_output("ready");
  signal_launcher(SIGTERM);
  wait_until_signal_was_taken();
  signal_launcher(SIGTERM);
  const Outcome outcome = finish();
  EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.err;
  EXPECT_THAT(outcome.out, testing::HasSubstr("[rank 1] stopped"));
  expect_nothing_left(2);
}

TEST_F(Supervise, GivesEveryRankItsPlaceAndNoInput) {
  const Outcome outcome =
      run(job_of(2, {"1:env=WEFT_RANK", "1:env=WEFT_WORLD_SIZE", "1:env=WEFT_REPLICAS", "1:env=WEFT_HOST",
                     "1:env=RANK", "1:env=WORLD_SIZE", "1:env=LOCAL_RANK", "1:env=LOCAL_WORLD_SIZE",
                     "1:env=MASTER_ADDR", "1:env=UCX_ERROR_SIGNALS", "1:env=UCX_LOG_FILE", "1:input"}));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(
      outcome.out,
      "[rank 1] WEFT_RANK=1\n[rank 1] WEFT_WORLD_SIZE=2\n[rank 1] WEFT_REPLICAS=1\n[rank 1] WEFT_HOST=0\n"
      "[rank 1] RANK=1\n[rank 1] WORLD_SIZE=2\n[rank "
      "1] LOCAL_RANK=1\n"
      "[rank 1] LOCAL_WORLD_SIZE=2\n[rank 1] MASTER_ADDR=127.0.0.1\n[rank 1] UCX_ERROR_SIGNALS=\n[rank "
      "1] UCX_LOG_FILE=stderr\n[rank 1] input ends: 1\n");
}

TEST_F(Supervise, PassesWholeLinesOnInTheirOrder) {
  const Outcome outcome = run(job_of(4, {"lines=3000", "tail=no newline at the end"}));
  EXPECT_EQ(outcome.status, 0);
  std::vector<int> next(4, 0);
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    unsigned rank = 9;
    int number = -1;
    if (std::sscanf(line.c_str(), "[rank %u] line %d end", &rank, &number) == 2) {
      ASSERT_LT(rank, 4U);
      ASSERT_EQ(number, next[rank]++) << line;
    } else {
      ASSERT_THAT(line, HasSubstr("] no newline at the end"));
    }
  }
  EXPECT_EQ(next, std::vector<int>(4, 3000));
}

TEST_F(Supervise, CutsEndlessLines) {
  const Outcome outcome = run(job_of(2, {"1:wide=200000"}));
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), 'w'), 200000);
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 4);
}

TEST_F(Supervise, LetsTheSpeakerWriteByItselfAndKeepsOthersOutOfStdout) {
  Job job = job_of(3, {"out=from all", "2:tail=a bar \r"});
  job.speaker = 2;
  const Outcome outcome = run(job);
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "from all\na bar \r");
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("[rank 0] from all\n"), HasSubstr("[rank 1] from all\n")));
}

TEST_F(Supervise, CannotStartAProgramThatIsNotThere) {
  Job job = job_of(2, {});
  job.program = "/nowhere/program";
  const Outcome outcome = run(job);
  EXPECT_EQ(outcome.status, 99);
  EXPECT_THAT(outcome.err, HasSubstr("cannot run /nowhere/program: No such file or directory"));
}

TEST_F(Supervise, SurvivesThatNobodyReadsItsOutput) {
  Job job = job_of(2, {"join", "barrier", "lines=20000", "done"});
  start(job);
  stop_reading();
  EXPECT_EQ(finish().status, 0);
}

}  // namespace
}  // namespace weft
