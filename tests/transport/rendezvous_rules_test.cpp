// What the rendezvous is made of, without sockets: the rules on ranks, sealed frames, the progress board, the
// environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "weft/base/error.h"
#include "weft/transport/rendezvous/build_identity.h"
#include "weft/transport/rendezvous/pace.h"
#include "weft/transport/rendezvous/progress_board.h"
#include "weft/transport/rendezvous/rank_environment.h"
#include "weft/transport/rendezvous/roll.h"
#include "weft/transport/rendezvous/wire.h"

namespace weft::control {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::vector<CommonFact> common_facts{{"build", "abc"}};
constexpr std::chrono::milliseconds heartbeat_limit = 10s;
constexpr std::chrono::milliseconds join_limit = 300s;

class RollTest : public testing::Test {
 protected:
  void join_all() {
    for (std::uint32_t rank = 0; rank < roll_.size(); ++rank) roll_.join(rank, common_facts, start_);
  }
  std::optional<Failure> judge(Time now) const { return roll_.judge(now, heartbeat_limit, join_limit); }

  Time start_{std::chrono::hours(1)};
  Roll roll_{3};
};

TEST_F(RollTest, FindsASilentRank) {
  join_all();
  for (auto now = start_; now <= start_ + 20s; now += 1s) {
    for (const std::uint32_t rank : {0U, 2U}) roll_.beat(rank, {Activity::outside, 0, 0, {}}, now);
    if (now <= start_ + 4s)
      roll_.beat(1, {Activity::working, 7, static_cast<std::uint64_t>(now.time_since_epoch().count()), "1F3"},
                 now);
    const auto found = judge(now);
    ASSERT_EQ(found.has_value(), now > start_ + 14s);
    if (!found) continue;
    EXPECT_EQ(found->rank, 1U);
    EXPECT_THAT(
        found->what,
        HasSubstr("rank 1 has not answered for 10 s (stopped or stuck); last heard: 7 ops done, at 1F3"));
  }
}

TEST_F(RollTest, FindsARankThatDoesNotTickInsideAStepOnly) {
  join_all();
  for (auto now = start_; now <= start_ + 60s; now += 1s) {
    for (std::uint32_t rank = 0; rank < 3; ++rank) roll_.beat(rank, {Activity::outside, 3, 5, {}}, now);
    ASSERT_FALSE(judge(now)) << "outside of a step a rank may take its time";
  }
  const auto inside = start_ + 61s;
  for (auto now = inside; now <= inside + 10s; now += 1s) {
    for (const std::uint32_t rank : {0U, 2U}) roll_.beat(rank, {Activity::outside, 3, 5, {}}, now);
    roll_.beat(1, {Activity::working, 4, 6, "1B0"}, now);
    ASSERT_FALSE(judge(now));
  }
  const auto found = judge(inside + 10s + 1ms);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1U);
  EXPECT_THAT(found->what, HasSubstr("stuck"));
}

TEST_F(RollTest, FindsADeadlockWhereEveryoneWaits) {
  join_all();
  std::uint64_t ticks = 0;
  for (auto now = start_; now <= start_ + 12s; now += 1s) {
    ++ticks;
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      roll_.beat(rank, {Activity::waiting, rank, ticks, "stage " + std::to_string(rank)}, now);
    }
    const auto found = judge(now);
    ASSERT_EQ(found.has_value(), now > start_ + 10s);
    if (!found) continue;
    EXPECT_THAT(found->what, HasSubstr("rank 2: 2 ops done, waits for stage 2"));
  }
}

TEST_F(RollTest, SeesNoDeadlockWhileOneRankComputes) {
  join_all();
  std::uint64_t ticks = 0;
  for (auto now = start_; now <= start_ + 60s; now += 1s) {
    ++ticks;
    roll_.beat(0, {Activity::working, 1, ticks, "a long op that polls"}, now);
    for (const std::uint32_t rank : {1U, 2U}) roll_.beat(rank, {Activity::waiting, 0, ticks, "stage 0"}, now);
    ASSERT_FALSE(judge(now));
  }
}

TEST_F(RollTest, FindsARankThatWaitsForOthersWhoHaveLeft) {
  join_all();
  roll_.give(1, 1, {}, start_);
  roll_.finish(0);
  roll_.finish(2);
  roll_.beat(1, {}, start_ + 10s);
  EXPECT_FALSE(judge(start_ + 10s));
  roll_.beat(1, {}, start_ + 11s);
  const auto found = judge(start_ + 11s);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1U);
}

TEST_F(RollTest, NamesTheRanksThatDoNotCome) {
  EXPECT_FALSE(judge(start_ + 1000s)) << "before the first arrival nothing is late";
  roll_.join(1, common_facts, start_);
  roll_.beat(1, {}, start_ + 300s);
  EXPECT_FALSE(judge(start_ + 300s));
  roll_.beat(1, {}, start_ + 301s);
  const auto found = judge(start_ + 301s);
  ASSERT_TRUE(found);
  EXPECT_THAT(found->what, HasSubstr("have not joined within 300 s: 0, 2"));
}

TEST_F(RollTest, BlamesNobodyAfterTheLauncherItselfWasStopped) {
  join_all();
  ASSERT_TRUE(judge(start_ + 100s));
  roll_.forgive(start_ + 100s);
  EXPECT_FALSE(judge(start_ + 110s));
  EXPECT_TRUE(judge(start_ + 111s));
}

TEST_F(RollTest, NamesTheFirstLineThatDiffers) {
  roll_.join(0, {{"configuration", "a: 1\nb:\n  c: 2\n  d: 3\n"}}, start_);
  EXPECT_EQ(roll_.objection(1, 3, {{"configuration", "a: 1\nb:\n  c: 25\n  d: 3\n"}}).value(),
            "its configuration is 'c: 25', rank 0's configuration is 'c: 2'; all ranks must have the same");
  EXPECT_THAT(roll_.objection(1, 3, {{"configuration", "a: 1\nb:\n  c: 2\n"}}).value(),
              HasSubstr("is '', rank 0's configuration is 'd: 3'"));
  EXPECT_FALSE(roll_.objection(1, 3, {{"configuration", "a: 1\nb:\n  c: 2\n  d: 3\n"}}));
}

TEST_F(RollTest, DoesNotWatchARankThatIsDone) {
  join_all();
  for (std::uint32_t rank = 0; rank < 3; ++rank) roll_.finish(rank);
  EXPECT_FALSE(judge(start_ + 1000s));
}

TEST_F(RollTest, RefusesASecondPartForOneExchange) {
  join_all();
  roll_.give(0, 1, {}, start_);
  EXPECT_THROW(roll_.give(0, 2, {}, start_), TransportError);
}

class SealedFrames : public testing::Test {
 protected:
  RunToken token_ = make_run_token();
  Nonce mine_ = make_nonce();
  Nonce theirs_ = make_nonce();
  Channel channel(std::string_view role = "from rank") const { return {token_, role, mine_, theirs_, 4}; }
};

TEST_F(SealedFrames, OpenToWhatWasSealed) {
  Channel out = channel();
  Channel in = channel();
  for (int i = 0; i < 3; ++i) {
    const auto frame = out.seal(Type::failed, Writer().string("words " + std::to_string(i)).take());
    ASSERT_EQ(in.rest_of(std::span(frame).first(header_bytes)), frame.size() - header_bytes);
    Reader payload(in.open(frame));
    EXPECT_EQ(payload.text(), "words " + std::to_string(i));
    payload.end();
  }
}

TEST_F(SealedFrames, NoticeEveryFlippedBit) {
  Channel out = channel();
  const auto good = out.seal(Type::lost_peer, Writer().u32(1).string("x").take());
  for (std::size_t bit = 0; bit < good.size() * 8; ++bit) {
    auto bad = good;
    bad[bit / 8] ^= std::byte(1U << (bit % 8));
    Channel in = channel();
    EXPECT_THROW(
        {
          const std::size_t rest = in.rest_of(std::span(bad).first(header_bytes));
          if (rest + header_bytes != bad.size())
            throw TransportError("another length: the bytes would never come");
          (void)in.open(bad);
        },
        TransportError)
        << "bit " << bit;
  }
}

TEST_F(SealedFrames, NoticeRepetitionReorderingAndReflection) {
  Channel out = channel();
  const auto first = out.seal(Type::done, {});
  const auto second = out.seal(Type::done, {});
  Channel in = channel();
  EXPECT_THROW((void)in.rest_of(std::span(second).first(header_bytes)), TransportError);
  (void)in.open(first);
  EXPECT_THROW((void)in.rest_of(std::span(first).first(header_bytes)), TransportError);
  Channel other_way = channel("from launcher");
  EXPECT_THROW((void)other_way.open(first), TransportError);
}

TEST(ControlText, ShowsNoControlCharacters) {
  const auto bytes = Writer().string("a\x1b[31mb\r\nc\x7f").take();
  EXPECT_EQ(Reader(bytes).text(), "a\\x1b[31mb\\x0d\nc\\x7f");
}

TEST(ControlText, EndsNoEarlierThanItSays) {
  auto bytes = Writer().string("twelve bytes").take();
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(Reader(std::span(bytes).first(size)).text(), TransportError);
  }
  Reader longer(bytes);
  longer.u32();
  EXPECT_THROW(longer.end(), TransportError);
}

TEST(ProgressBoardTest, NeverShowsAMixOfTwoEntries) {
  ProgressBoard board;
  std::atomic<bool> end{false};
  std::thread actor([&] {
    for (std::uint64_t count = 1; !end; ++count) {
      board.set(count % 2 == 0 ? Activity::working : Activity::waiting, count,
                std::string(100, static_cast<char>('a' + count % 26)));
    }
  });
  std::uint64_t last = 0;
  while (last < 20'000) {
    const auto now = board.read();
    ASSERT_GE(now.count, last);
    last = now.count;
    if (now.count == 0) continue;
    ASSERT_EQ(now.doing, std::string(100, static_cast<char>('a' + now.count % 26)));
    ASSERT_EQ(now.activity, now.count % 2 == 0 ? Activity::working : Activity::waiting);
  }
  end = true;
  actor.join();
}

TEST(ProgressBoardTest, CutsLongTextsAndKeepsTheCountOutside) {
  ProgressBoard board;
  board.set(Activity::working, 3, std::string(500, 'x'));
  EXPECT_EQ(board.read().doing, std::string(doing_bytes - 1, 'x'));
  board.set_outside();
  EXPECT_EQ(board.read().count, 3U);
  EXPECT_EQ(board.read().activity, Activity::outside);
  const auto ticks = board.read().ticks;
  board.tick();
  EXPECT_EQ(board.read().ticks, ticks + 1);
}

class RankEnvironmentTest : public testing::Test {
 protected:
  void SetUp() override {
    descriptor_ = share_run_token(token_);
    set("WEFT_RANK", "1");
    set("WEFT_WORLD_SIZE", "4");
    set("WEFT_RENDEZVOUS", "127.0.0.1:4711");
    set("WEFT_TOKEN_FD", std::to_string(descriptor_.number()));
  }
  void TearDown() override {
    for (const char* name : {"WEFT_RANK", "WEFT_WORLD_SIZE", "WEFT_REPLICAS", "WEFT_HOST", "WEFT_HOST_NAME",
                             "WEFT_RENDEZVOUS", "WEFT_TOKEN_FD", "LOCAL_RANK", "LOCAL_WORLD_SIZE"}) {
      unsetenv(name);
    }
    descriptor_.close();
  }
  static void set(const char* name, const std::string& value) { setenv(name, value.c_str(), 1); }
  static std::string refusal() {
    try {
      (void)rank_environment();
    } catch (const ConfigError& e) {
      return e.what();
    }
    return "accepted";
  }
  RunToken token_ = make_run_token();
  Descriptor descriptor_;
};

TEST_F(RankEnvironmentTest, IsReadAsOftenAsAsked) {
  for (int i = 0; i < 2; ++i) {
    const auto environment = rank_environment();
    ASSERT_TRUE(environment);
    EXPECT_EQ(environment->rank, 1U);
    EXPECT_EQ(environment->mesh, Mesh(4, 1));
    EXPECT_EQ(environment->host, 0U);
    EXPECT_EQ(environment->local_rank, 1U);
    EXPECT_EQ(environment->local_world_size, 4U);
    EXPECT_EQ(environment->launcher_host, "127.0.0.1");
    EXPECT_EQ(environment->launcher_port, 4711);
    EXPECT_EQ(environment->token, token_);
  }
}

TEST_F(RankEnvironmentTest, KnowsItsHost) {
  set("WEFT_HOST", "2");
  set("WEFT_HOST_NAME", "node7");
  set("LOCAL_RANK", "0");
  set("LOCAL_WORLD_SIZE", "1");
  set("WEFT_REPLICAS", "1");
  const auto environment = rank_environment();
  ASSERT_TRUE(environment);
  EXPECT_EQ(environment->host, 2U);
  EXPECT_EQ(environment->host_name, "node7");
  EXPECT_EQ(environment->local_rank, 0U);
  EXPECT_EQ(environment->local_world_size, 1U);
}

TEST_F(RankEnvironmentTest, WantsALocalRankOfALocalWorld) {
  set("LOCAL_WORLD_SIZE", "1");
  EXPECT_THAT(refusal(), HasSubstr("LOCAL_RANK: is not set although LOCAL_WORLD_SIZE is"));
  set("LOCAL_RANK", "1");
  EXPECT_EQ(refusal(), "LOCAL_RANK: '1' does not fit; allowed: 0");
}

TEST_F(RankEnvironmentTest, IsOfOnePipeline) {
  set("WEFT_REPLICAS", "2");
  EXPECT_EQ(refusal(), "WEFT_REPLICAS: '2' does not fit; allowed: 1");
}

TEST_F(RankEnvironmentTest, IsAbsentWithoutARank) {
  unsetenv("WEFT_RANK");
  EXPECT_FALSE(rank_environment());
}

TEST_F(RankEnvironmentTest, NamesWhatIsWrong) {
  const std::vector<std::tuple<const char*, const char*>> cases{
      {"WEFT_RANK", "4"},          {"WEFT_RANK", "-1"},
      {"WEFT_RANK", "one"},        {"WEFT_RANK", ""},
      {"WEFT_WORLD_SIZE", "0"},    {"WEFT_WORLD_SIZE", "1e3"},
      {"WEFT_RENDEZVOUS", "4711"}, {"WEFT_RENDEZVOUS", ":4711"},
      {"WEFT_RENDEZVOUS", "a:0"},  {"WEFT_RENDEZVOUS", "a:65536"},
      {"WEFT_TOKEN_FD", "0"},      {"WEFT_TOKEN_FD", "999"},
      {"LOCAL_RANK", "x"},         {"WEFT_HOST", "4"},
      {"WEFT_REPLICAS", "0"}};
  for (const auto& [name, value] : cases) {
    const char* set_before = std::getenv(name);
    const std::optional<std::string> before =
        set_before == nullptr ? std::nullopt : std::optional<std::string>(set_before);
    set(name, value);
    EXPECT_THAT(refusal(), HasSubstr(name)) << value;
    if (before)
      set(name, *before);
    else
      unsetenv(name);
  }
  unsetenv("WEFT_RENDEZVOUS");
  EXPECT_THAT(refusal(), HasSubstr("WEFT_RENDEZVOUS"));
}

TEST(PaceMeterTest, KeepsTheLongestStepAndSave) {
  PaceMeter meter;
  EXPECT_EQ(meter.read(5), Pace{});
  const auto ms = [](std::int64_t count) { return count * 1'000'000; };
  meter.begin_step(ms(100));
  meter.end_step(ms(130));
  meter.begin_step(ms(200));
  meter.end_step(ms(210));
  EXPECT_EQ(meter.read(ms(500)), (Pace{30ms, 0ms}));
  meter.begin_save(ms(500));
  EXPECT_EQ(meter.read(ms(540)), (Pace{30ms, 40ms})) << "so far";
  EXPECT_EQ(meter.read(ms(3'600'000)), (Pace{30ms, 600'000ms})) << "it may be stuck";
  meter.end_save(ms(575));
  EXPECT_EQ(meter.read(ms(3'600'000)), (Pace{30ms, 75ms}));
}

TEST(BuildIdentity, IsTheSameAtEveryCallAndNotEmpty) {
  EXPECT_EQ(build_identity(), build_identity());
  EXPECT_GE(build_identity().size(), 16U);
}

}  // namespace
}  // namespace weft::control
