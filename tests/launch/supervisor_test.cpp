// Ranks that no process stands behind: a host that does what the test says, and a clock set by hand.
#include "weft/launch/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/launch/supervise.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Kind = RendezvousEvent::Kind;

/// Reports the ends that it was given, and notes what is asked of it.
class FakeHost final : public RankHost {
 public:
  FakeHost() : news_(eventfd(1, EFD_CLOEXEC)) {}
  ~FakeHost() override { close(news_); }
  std::string launcher_address() const override { return "127.0.0.1"; }
  void start(const RankProgram& program, const Rendezvous& rendezvous) override {
    port = rendezvous.port;
    if (program.program == "refused") throw Error("this host takes no more ranks");
  }
  void signal(std::uint32_t rank, int number) override { signals.emplace_back(rank, number); }
  void add_descriptors(std::vector<pollfd>& waiting, bool) const override {
    waiting.push_back({news_, POLLIN, 0});
  }
  void report(HostObserver& observer, bool) override {
    for (const auto& [rank, line] : std::exchange(lines, {}))
      observer.printed(rank, RankStream::errors, {line});
    for (const auto& [rank, end] : std::exchange(ends, {})) observer.ended(rank, end);
  }
  bool may_print() const override { return false; }
  void end_output(HostObserver&) override {}

  std::uint16_t port = 0;
  std::vector<std::pair<std::uint32_t, int>> signals;
  std::vector<std::pair<std::uint32_t, std::string>> lines;
  std::vector<std::pair<std::uint32_t, RankEnd>> ends;

 private:
  int news_;  // always readable
};

class SupervisorTest : public testing::Test, public Supervisor::Voice {
 protected:
  SupervisorTest() {
    job_.mesh = Mesh(3, 1);
    job_.stop_by = StopBy::message;
    job_.must_join = true;
  }
  void announce_failure(const Failure& cause) override { announced_.push_back(cause.what); }
  void request_stop() override { ++stops_; }
  void write(int descriptor, std::string text) override { (descriptor == 1 ? out_ : err_) += text; }

  Supervisor& supervisor() {
    if (!supervisor_) supervisor_.emplace(job_, host_, *this);
    return *supervisor_;
  }
  void join_all() {
    for (std::uint32_t rank = 0; rank < 3; ++rank) tell(Kind::joined, rank);
    settle();
  }
  void tell(Kind kind, std::uint32_t rank, const std::string& what = {}, Pace pace = {}) {
    supervisor().take_event({kind, rank, 0, what, pace}, now_);
  }
  void signal(int number) {
    supervisor().take_signal(number, now_);
    settle();
  }
  void end(std::uint32_t rank, RankEnd how) { supervisor().ended(rank, how); }
  void settle() { supervisor().settle(now_); }
  /// Moves the clock and settles.
  void after(std::chrono::milliseconds time) {
    now_ += time;
    settle();
  }
  /// How long the supervisor will do nothing without news, in milliseconds; -1 = for ever.
  std::int64_t pause() {
    const auto deadline = supervisor().deadline();
    return deadline ? std::chrono::duration_cast<std::chrono::milliseconds>(*deadline - now_).count() : -1;
  }
  std::string cause() {
    const JobResult result = supervisor().result(now_);
    return result.cause ? result.cause->what : "";
  }
  std::vector<std::uint32_t> killed() {
    std::vector<std::uint32_t> ranks;
    for (const auto& [rank, number] : host_.signals)
      if (number == SIGKILL) ranks.push_back(rank);
    return ranks;
  }

  Job job_;
  FakeHost host_;
  std::optional<Supervisor> supervisor_;
  Supervisor::Time now_{std::chrono::hours(1)};
  std::vector<std::string> announced_;
  int stops_ = 0;
  std::string out_;
  std::string err_;
};

constexpr RankEnd well{false, 0};
constexpr RankEnd killed_by_9{true, 9};

TEST_F(SupervisorTest, EndsWellWhenAllWereDoneInWhateverOrder) {
  join_all();
  for (const std::uint32_t rank : {2U, 0U, 1U}) {
    end(rank, well);  // the news of the end may come first
    tell(Kind::done, rank);
    settle();
  }
  EXPECT_TRUE(supervisor().all_ended());
  EXPECT_EQ(cause(), "");
  EXPECT_EQ(supervisor().result(now_).exit_status(), 0);
  EXPECT_THAT(host_.signals, IsEmpty());
  EXPECT_EQ(err_, "");
}

TEST_F(SupervisorTest, TakesARankForDoneThatSaidSoAmongOtherNews) {
  tell(Kind::joined, 0);
  end(0, well);
  tell(Kind::joined, 1);
  tell(Kind::done, 0);
  settle();
  EXPECT_EQ(cause(), "");
}

TEST_F(SupervisorTest, BlamesTheKilledRankWhateverEndsFirst) {
  join_all();
  end(0, {false, 1});
  end(2, killed_by_9);
  settle();
  EXPECT_THAT(cause(), HasSubstr("rank 2 was killed by signal 9 (SIGKILL)"));
  EXPECT_THAT(announced_, ElementsAre(cause()));
  EXPECT_EQ(pause(), 500);
  after(500ms);
  EXPECT_THAT(killed(), ElementsAre(1U));
}

TEST_F(SupervisorTest, PrefersALaterCauseToALostPeer) {
  join_all();
  tell(Kind::lost_peer, 0, "rank 0 lost rank 1");
  end(0, {false, 1});
  settle();
  EXPECT_THAT(announced_, IsEmpty());
  EXPECT_EQ(pause(), 200);
  end(1, killed_by_9);
  after(199ms);
  EXPECT_THAT(cause(), HasSubstr("rank 1 was killed"));
}

TEST_F(SupervisorTest, PrintsLinesWithTheirRankAndKeepsLastWords) {
  join_all();
  supervisor().printed(0, RankStream::output, {"one", "", "two"});
  supervisor().printed(1, RankStream::errors, {"out of luck", ""});
  EXPECT_EQ(out_, "[rank 0] one\n[rank 0] \n[rank 0] two\n");
  EXPECT_EQ(err_, "[rank 1] out of luck\n[rank 1] \n");
  end(1, {false, 4});
  settle();
  EXPECT_EQ(cause(), "rank 1 ended with exit status 4; its last words: out of luck");
}

TEST_F(SupervisorTest, KeepsStdoutForTheSpeaker) {
  job_.speaker = 2;
  supervisor().printed(0, RankStream::output, {"one"});
  EXPECT_EQ(out_, "");
  EXPECT_EQ(err_, "[rank 0] one\n");
}

TEST_F(SupervisorTest, LeavesARankThatToldItsFailureTimeToWriteItDown) {
  join_all();
  tell(Kind::failed, 1, "rank 1 failed: the loss is nan");
  settle();
  EXPECT_EQ(err_, "weft: rank 1 failed: the loss is nan\n");
  after(500ms);
  EXPECT_THAT(killed(), ElementsAre(0U, 2U));
  EXPECT_EQ(pause(), 4500);
  after(4500ms);
  EXPECT_THAT(killed(), ElementsAre(0U, 2U, 1U));
}

TEST_F(SupervisorTest, LeavesNoTimeToARankThatWasFoundStuck) {
  join_all();
  tell(Kind::found, 1, "rank 1 has been stuck for 10 s");
  settle();
  after(500ms);
  EXPECT_THAT(killed(), ElementsAre(0U, 1U, 2U));
}

TEST_F(SupervisorTest, EndsRanksByASignalThatCannotHearOfAFailure) {
  tell(Kind::joined, 0);
  end(1, {false, 3});
  settle();
  EXPECT_THAT(host_.signals, ElementsAre(std::pair(2U, SIGTERM)));
}

TEST_F(SupervisorTest, WaitsForAStopAsLongAsStepsAndSavesTake) {
  join_all();
  signal(SIGTERM);
  EXPECT_EQ(stops_, 1);
  EXPECT_EQ(pause(), 30'000);
  now_ += 20s;
  tell(Kind::pace, 1, {}, {7s, 0s});
  EXPECT_EQ(pause(), 30'000 - 20'000 + 14'000);
  tell(Kind::pace, 2, {}, {7s, 60s});
  EXPECT_EQ(pause(), 30'000 - 20'000 + 2 * 67'000);
  after(143s);
  EXPECT_THAT(killed(), IsEmpty());
  after(1s);
  EXPECT_THAT(killed(), ElementsAre(0U, 1U, 2U));
  EXPECT_EQ(err_, "weft: the ranks did not stop by themselves and were killed\n");
  for (std::uint32_t rank = 0; rank < 3; ++rank) end(rank, killed_by_9);
  settle();
  EXPECT_EQ(supervisor().result(now_).exit_status(), 128 + SIGTERM) << "its own doing is no failure";
}

TEST_F(SupervisorTest, KnowsThePaceFromBeforeTheStop) {
  join_all();
  tell(Kind::pace, 1, {}, {2s, 3s});
  signal(SIGINT);
  EXPECT_EQ(pause(), 40'000);
}

TEST_F(SupervisorTest, IsImpatientWhenAskedAgain) {
  join_all();
  signal(SIGINT);
  now_ += 500ms;
  signal(SIGINT);
  EXPECT_THAT(killed(), IsEmpty()) << "one wish, sent twice";
  tell(Kind::pace, 1, {}, {60s, 0s});
  now_ += 1s;
  signal(SIGINT);
  EXPECT_THAT(killed(), ElementsAre(0U, 1U, 2U));
  tell(Kind::pace, 1, {}, {90s, 0s});
  EXPECT_EQ(pause(), -1);
  EXPECT_EQ(err_, "weft: asked again to stop: the ranks were killed\n");
}

TEST_F(SupervisorTest, PassesSignalsOn) {
  job_.stop_by = StopBy::signal;
  join_all();
  for (const int number : {SIGUSR1, SIGUSR2, SIGCONT, SIGTSTP}) signal(number);
  end(1, well);
  tell(Kind::done, 1);
  signal(SIGUSR1);
  std::vector<int> of_rank_1;
  for (const auto& [rank, number] : host_.signals)
    if (rank == 1) of_rank_1.push_back(number);
  EXPECT_THAT(of_rank_1, ElementsAre(SIGUSR1, SIGUSR2, SIGCONT, SIGSTOP));
}

TEST(SuperviseOnAHost, EndsWithTheHostsRefusal) {
  Job job;
  job.program = "refused";
  FakeHost host;
  EXPECT_THROW((void)supervise(job, host), Error);
  EXPECT_NE(host.port, 0) << "ranks would have found the launcher";
  EXPECT_THAT(host.signals, IsEmpty());
}

TEST(SuperviseOnAHost, IsOverWhenTheHostSaysSo) {
  Job job;
  job.mesh = Mesh(2, 1);
  job.speaker = 0;
  FakeHost host;
  host.lines = {{1, "bad day"}};
  host.ends = {{0, well}, {1, {false, 5}}};
  testing::internal::CaptureStderr();
  const JobResult result = supervise(job, host);
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "[rank 1] bad day\nweft: rank 1 ended with exit status 5; its last words: bad day\n");
  EXPECT_EQ(result.exit_status(), 1);
}

}  // namespace
}  // namespace weft
