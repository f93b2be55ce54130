// The rendezvous over real sockets: ranks are clients on threads of this process.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <random>
#include <thread>

#include "weft/base/error.h"
#include "weft/transport/rendezvous/control_client.h"
#include "weft/transport/rendezvous/rendezvous_server.h"
#include "weft/transport/rendezvous/wire.h"

namespace weft {
namespace {

using Kind = RendezvousEvent::Kind;
using testing::HasSubstr;

const std::vector<CommonFact> common_facts{{"build", "abc"}, {"CPU level", "avx2"}};

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}

/// A server and what a test does with it.
class TestRun {
 public:
  explicit TestRun(std::uint32_t world, RendezvousOptions options = {}) : options_(options) {
    options_.world_size = world;
    options_.token = make_run_token();
    server_.emplace(options_);
  }

  RankEnvironment environment(std::uint32_t rank) const {
    RankEnvironment one;
    one.rank = rank;
    one.mesh = Mesh(options_.world_size, 1);
    one.launcher_host = "127.0.0.1";
    one.launcher_port = server_->port();
    one.token = options_.token;
    return one;
  }

  std::unique_ptr<ControlClient> join(std::uint32_t rank, std::function<void()> on_failure = {}) {
    return std::make_unique<ControlClient>(environment(rank), common_facts, std::move(on_failure));
  }

  /// The next event of one of `kinds`, the others dropped.
  RendezvousEvent wait_for(std::initializer_list<Kind> kinds) {
    for (;;) {
      pollfd waiting{server_->event_descriptor(), POLLIN, 0};
      poll(&waiting, 1, -1);
      while (const auto event = server_->next_event()) {
        if (std::find(kinds.begin(), kinds.end(), event->kind) != kinds.end()) return *event;
      }
    }
  }

  RendezvousServer& server() { return *server_; }
  void end_server() { server_.reset(); }

 private:
  RendezvousOptions options_;
  std::optional<RendezvousServer> server_;
};

/// A plain TCP connection to the server, as a stranger would make.
class Stranger {
 public:
  explicit Stranger(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in place{};
    place.sin_family = AF_INET;
    place.sin_port = htons(port);
    place.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(socket_, reinterpret_cast<sockaddr*>(&place), sizeof(place)) != 0)
      throw Error("cannot connect");
  }
  ~Stranger() { ::close(socket_); }
  Stranger(const Stranger&) = delete;
  Stranger& operator=(const Stranger&) = delete;

  void say(std::span<const std::byte> what) const { send(socket_, what.data(), what.size(), MSG_NOSIGNAL); }
  void say(const std::string& what) const { say(bytes_of(what)); }
  /// Reads until the other side closes.
  std::size_t hear_to_the_end() const {
    std::array<char, 256> buffer;
    std::size_t sum = 0;
    for (ssize_t got; (got = recv(socket_, buffer.data(), buffer.size(), 0)) > 0;)
      sum += static_cast<std::size_t>(got);
    return sum;
  }
  std::vector<std::byte> hear(std::size_t count) const {
    std::vector<std::byte> heard(count);
    if (recv(socket_, heard.data(), count, MSG_WAITALL) != static_cast<ssize_t>(count)) heard.clear();
    return heard;
  }

 private:
  int socket_;
};

void expect_that_all_can_meet(TestRun& run, std::uint32_t world) {
  std::vector<std::future<std::vector<ControlClient::Bytes>>> ranks;
  for (std::uint32_t rank = 0; rank < world; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&run, rank] {
      const auto client = run.join(rank);
      auto all = client->exchange(bytes_of("address " + std::to_string(rank)));
      client->done();
      return all;
    }));
  }
  for (auto& one : ranks) {
    const auto all = one.get();
    ASSERT_EQ(all.size(), world);
    for (std::uint32_t rank = 0; rank < world; ++rank)
      EXPECT_EQ(all[rank], bytes_of("address " + std::to_string(rank)));
  }
}

TEST(Rendezvous, GivesEveryRankTheAddressesOfAllByRank) {
  TestRun run(5);
  expect_that_all_can_meet(run, 5);
}

TEST(Rendezvous, RepeatsExchangesWithEmptyAndLargePartsInStep) {
  constexpr std::uint32_t world_size = 3;
  TestRun run(world_size);
  std::vector<std::future<bool>> ranks;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    ranks.push_back(std::async(std::launch::async, [&run, rank] {
      const auto client = run.join(rank);
      bool right = true;
      for (std::uint32_t round = 0; round < 20; ++round) {
        const std::size_t size = round == 7 ? 65536 : round * (rank + 1);
        const auto all = client->exchange(std::vector<std::byte>(size, std::byte(round)));
        for (std::uint32_t other = 0; other < world_size; ++other) {
          right &= all[other].size() == (round == 7 ? 65536 : round * (other + 1));
          right &= all[other].empty() || all[other].back() == std::byte(round);
        }
        client->barrier();
      }
      client->done();
      return right;
    }));
  }
  for (auto& one : ranks) EXPECT_TRUE(one.get());
}

TEST(Rendezvous, RefusesMoreThan64KiBInAnExchange) {
  TestRun run(1);
  const auto client = run.join(0);
  EXPECT_THROW((void)client->exchange(std::vector<std::byte>(65537)), TransportError);
}

TEST(Rendezvous, RefusesARankOfAnotherBuildAndNamesBoth) {
  TestRun run(2);
  const auto first = run.join(0);
  try {
    ControlClient second(run.environment(1), {{"build", "xyz"}, {"CPU level", "avx2"}});
    FAIL() << "joined";
  } catch (const TransportError& e) {
    EXPECT_THAT(e.what(), HasSubstr("its build is 'xyz', rank 0's build is 'abc'"));
    EXPECT_THAT(e.what(), HasSubstr("rank 1"));
  }
  const auto event = run.wait_for({Kind::found});
  EXPECT_EQ(event.rank, 1U);
  EXPECT_THAT(event.what, HasSubstr("xyz"));
}

TEST(Rendezvous, ComparesWholeConfigurations) {
  TestRun run(2);
  const std::string large(1 << 20, 'y');
  const ControlClient first(run.environment(0), {{"configuration", large + "1"}});
  EXPECT_THROW(ControlClient(run.environment(1), {{"configuration", large + "2"}}), TransportError);
  const ControlClient second(run.environment(1), {{"configuration", large + "1"}});
}

TEST(Rendezvous, RefusesASecondProcessOfOneRankAndKeepsTheFirst) {
  TestRun run(2);
  const auto first = run.join(0);
  EXPECT_THROW(run.join(0), TransportError);
  auto other = std::async(std::launch::async, [&run] { return run.join(1)->exchange({}).size(); });
  EXPECT_EQ(first->exchange({}).size(), 2U);
  EXPECT_EQ(other.get(), 2U);
}

TEST(Rendezvous, RefusesARankOutOfRangeAndAnotherWorldSize) {
  TestRun run(2);
  auto environment = run.environment(1);
  environment.rank = 2;
  EXPECT_THROW(ControlClient(environment, common_facts), TransportError);
  environment = run.environment(1);
  environment.mesh = Mesh(3, 1);
  EXPECT_THROW(ControlClient(environment, common_facts), TransportError);
  expect_that_all_can_meet(run, 2);
}

TEST(Rendezvous, LetsARankJoinAgainAfterItWasDone) {
  TestRun run(2);
  for (int session = 0; session < 3; ++session) expect_that_all_can_meet(run, 2);
}

TEST(Rendezvous, RefusesARankThatDoesNotKnowTheToken) {
  TestRun run(2);
  auto environment = run.environment(0);
  environment.token[31] ^= std::byte{1};
  try {
    ControlClient client(environment, common_facts);
    FAIL() << "joined";
  } catch (const TransportError& e) {
    EXPECT_THAT(e.what(), HasSubstr("does not know this run's token"));
  }
  expect_that_all_can_meet(run, 2);
}

TEST(Rendezvous, IsNotDisturbedByStrangers) {
  TestRun run(2);
  const std::uint16_t port = run.server().port();
  std::mt19937 random(7);
  std::string noise(10'000, '\0');
  for (char& c : noise) c = static_cast<char>(random());
  const std::string greeting = std::string(control::magic) + std::string(32, 'n');

  const Stranger silent(port);
  std::vector<std::unique_ptr<Stranger>> half_open;
  for (int i = 0; i < 200; ++i) half_open.push_back(std::make_unique<Stranger>(port));
  const Stranger slow(port);
  slow.say(greeting.substr(0, 5));
  for (const std::string& what :
       {std::string("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n padding padding padding"),
        std::string("\x16\x03\x01\x02\x00\x01") + noise, noise, std::string(1 << 20, '\xff'),
        std::string(100, '\0')}) {
    const Stranger stranger(port);
    stranger.say(what);
    EXPECT_EQ(stranger.hear_to_the_end(), 0U);
  }
  const Stranger forger(port);  // knows the protocol but not the token
  forger.say(greeting);
  EXPECT_EQ(forger.hear(control::answer_bytes).size(), control::answer_bytes);
  forger.say(std::string(32, 'p') + noise);
  EXPECT_EQ(forger.hear_to_the_end(), 0U);
  expect_that_all_can_meet(run, 2);
  EXPECT_EQ(run.wait_for({Kind::failed, Kind::found, Kind::left, Kind::done}).kind, Kind::done);
}

TEST(Rendezvous, DoesNotAcceptAReplayedHandshake) {
  TestRun run(2);
  // A rank's words as someone who listens would record them.
  const auto nonce = control::make_nonce();
  std::vector<std::byte> greeting = bytes_of(std::string(control::magic));
  greeting.insert(greeting.end(), nonce.begin(), nonce.end());
  control::Digest proof;
  {
    const Stranger honest(run.server().port());
    honest.say(greeting);
    const auto answer = honest.hear(control::answer_bytes);
    ASSERT_EQ(answer.size(), control::answer_bytes);
    control::Nonce theirs;
    std::copy_n(answer.begin() + 8, theirs.size(), theirs.begin());
    proof = control::prove(run.environment(0).token, "rank", nonce, theirs);
  }
  const Stranger replay(run.server().port());
  replay.say(greeting);
  ASSERT_EQ(replay.hear(control::answer_bytes).size(), control::answer_bytes);
  replay.say(proof);
  EXPECT_EQ(replay.hear_to_the_end(), 0U);
}

TEST(Rendezvous, ClosesAConnectionThatDoesNotProveItselfInTime) {
  RendezvousOptions options;
  options.handshake_limit = std::chrono::milliseconds(20);
  TestRun run(1, options);
  const Stranger silent(run.server().port());
  EXPECT_EQ(silent.hear_to_the_end(), 0U);
}

TEST(Rendezvous, RefusesASealedFrameOfAbsurdLength) {
  TestRun run(1);
  const auto token = run.environment(0).token;
  const Stranger member(run.server().port());
  const auto nonce = control::make_nonce();
  std::vector<std::byte> greeting = bytes_of(std::string(control::magic));
  greeting.insert(greeting.end(), nonce.begin(), nonce.end());
  member.say(greeting);
  const auto answer = member.hear(control::answer_bytes);
  ASSERT_EQ(answer.size(), control::answer_bytes);
  control::Nonce theirs;
  std::copy_n(answer.begin() + 8, theirs.size(), theirs.begin());
  member.say(control::prove(token, "rank", nonce, theirs));
  control::Channel channel(token, "from rank", nonce, theirs, 1);
  auto frame = channel.seal(control::Type::hello, {});
  frame[7] = std::byte{0x7f};  // 2 GB
  member.say(frame);
  EXPECT_EQ(member.hear_to_the_end(), 0U);
  expect_that_all_can_meet(run, 1);
}

TEST(Rendezvous, TellsEveryRankTheFirstCause) {
  TestRun run(3);
  std::promise<void> heard;
  std::atomic<int> calls{0};
  const auto zero = run.join(0, [&] {
    ++calls;
    heard.set_value();
  });
  const auto one = run.join(1);
  zero->set_working(1, "0F0");
  one->fail("step 3, micro-batch 2: the loss is nan");
  one->fail("second thoughts");
  const auto event = run.wait_for({Kind::failed});
  EXPECT_EQ(event.rank, 1U);
  EXPECT_EQ(event.what, "rank 1 failed: step 3, micro-batch 2: the loss is nan");
  run.server().announce_failure({event.rank, event.what});
  run.server().announce_failure({2, "a later one"});
  heard.get_future().wait();
  EXPECT_EQ(zero->failure()->rank, 1U);
  EXPECT_THROW(zero->barrier(), PeerFailure);
  const auto late = run.join(2);
  EXPECT_THROW(late->barrier(), PeerFailure);
  EXPECT_EQ(late->failure()->what, "rank 1 failed: step 3, micro-batch 2: the loss is nan");
  EXPECT_EQ(calls, 1);
}

TEST(Rendezvous, ReportsALostPeerAsSuch) {
  TestRun run(2);
  const auto client = run.join(0);
  client->fail_by_peer(1, "endpoint timeout");
  const auto event = run.wait_for({Kind::failed, Kind::lost_peer});
  EXPECT_EQ(event.kind, Kind::lost_peer);
  EXPECT_EQ(event.peer, 1U);
}

TEST(Rendezvous, EndsAnExchangeWhenARankFails) {
  TestRun run(2);
  auto waiting = std::async(std::launch::async, [&run] {
    const auto client = run.join(0);
    try {
      client->barrier();
    } catch (const PeerFailure& e) {
      return e.rank();
    }
    return 99U;
  });
  run.wait_for({Kind::joined});
  run.server().announce_failure({1, "rank 1 was killed by signal 9 (SIGKILL)"});
  EXPECT_EQ(waiting.get(), 1U);
}

TEST(Rendezvous, TellsARankThatLeavesFromOneThatIsDone) {
  TestRun run(2);
  run.join(0)->done();
  EXPECT_EQ(run.wait_for({Kind::done, Kind::left}).kind, Kind::done);
  run.join(1);
  const auto event = run.wait_for({Kind::done, Kind::left});
  EXPECT_EQ(event.kind, Kind::left);
  EXPECT_EQ(event.rank, 1U);
}

TEST(Rendezvous, TellsTheRanksThatTheLauncherIsGone) {
  TestRun run(1);
  std::promise<void> heard;
  const auto client = run.join(0, [&] { heard.set_value(); });
  run.end_server();
  heard.get_future().wait();
  EXPECT_EQ(client->failure()->rank, launcher_rank);
  EXPECT_THAT(client->failure()->what, HasSubstr("launcher"));
  EXPECT_THROW(client->barrier(), PeerFailure);
}

TEST(Rendezvous, PassesAStopRequestToRanksHereAndToThoseThatComeLater) {
  TestRun run(2);
  const auto early = run.join(0);
  EXPECT_FALSE(early->stop_requested());
  run.server().request_stop();
  const auto late = run.join(1);
  auto other = std::async(std::launch::async, [&] { early->barrier(); });
  late->barrier();  // the launcher's frames come in order: after an exchange all earlier ones are there
  other.get();
  EXPECT_TRUE(early->stop_requested());
  EXPECT_TRUE(late->stop_requested());
}

TEST(Rendezvous, FindsARankWhoseActorGivesNoSignOfLife) {
  RendezvousOptions options;
  options.heartbeat_limit = std::chrono::milliseconds(200);
  TestRun run(2, options);
  const auto stuck = run.join(0);
  const auto lively = run.join(1);
  lively->set_waiting(4, "1F2 waits for stage 0");
  std::atomic<bool> end{false};
  std::thread loop([&] {
    while (!end) {
      lively->tick();
      std::this_thread::yield();
    }
  });
  stuck->set_working(5, "0F2");
  const auto event = run.wait_for({Kind::found});
  end = true;
  loop.join();
  EXPECT_EQ(event.rank, 0U);
  EXPECT_THAT(event.what, HasSubstr("rank 0 has been stuck for 200 ms"));
  EXPECT_THAT(event.what, HasSubstr("5 ops done, at 0F2"));
}

TEST(Rendezvous, ReportsTheLongestStepAndSaveOfAllRanks) {
  RendezvousOptions options;
  options.heartbeat_limit = std::chrono::milliseconds(200);
  TestRun run(2, options);
  const auto first = run.join(0);
  const auto second = run.join(1);
  first->set_working(0, "0F0");
  second->begin_save();
  EXPECT_GT(run.wait_for({Kind::pace}).pace.save.count(), 0) << "it goes on";
  first->set_outside();
  second->end_save();
  RendezvousEvent event = run.wait_for({Kind::pace});
  while (event.pace.step.count() == 0) event = run.wait_for({Kind::pace});
  EXPECT_GT(event.pace.save.count(), 0) << "of the other rank";
}

TEST(Rendezvous, CannotListenOnAnAddressThatIsNotHere) {
  RendezvousOptions options;
  options.bind_address = "203.0.113.1";
  EXPECT_THROW(RendezvousServer server(options), TransportError);
}

TEST(Rendezvous, SaysWhereItCouldNotConnect) {
  std::uint16_t port = 0;
  {
    const RendezvousServer server(RendezvousOptions{});
    port = server.port();
  }
  RankEnvironment environment;
  environment.launcher_host = "127.0.0.1";
  environment.launcher_port = port;
  environment.host_name = "node7";
  try {
    ControlClient client(environment, common_facts);
    FAIL() << "connected";
  } catch (const TransportError& e) {
    EXPECT_THAT(e.what(),
                HasSubstr("rank 0 on node7 cannot join the run at 127.0.0.1:" + std::to_string(port)));
  }
}

}  // namespace
}  // namespace weft
