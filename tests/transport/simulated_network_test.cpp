#include "weft/transport/simulated/simulated_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/tests/transport/conversation.h"

namespace weft {
namespace {

using test::Conversation;
using test::numbered;

std::vector<std::size_t> sizes_of(std::size_t count) {
  std::vector<std::size_t> sizes;
  for (std::size_t i = 0; i < count; ++i) sizes.push_back(i * 37 % 500);
  return sizes;
}

/// What each rank got, in the order in which it came, and when the last came.
struct Course {
  std::vector<std::vector<std::uint32_t>> orders;
  Nanoseconds end = 0;
  friend bool operator==(const Course&, const Course&) = default;
};

Course converse(std::uint32_t ranks, std::uint64_t seed, std::size_t count = 50) {
  SimulatedNetwork network(ranks, seed);
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::unique_ptr<Conversation>> conversations;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    transports.push_back(network.transport(rank));
    conversations.push_back(std::make_unique<Conversation>(*transports[rank], sizes_of(count)));
    conversations[rank]->start();
  }
  do {
    for (const auto& transport : transports) transport->progress();
  } while (network.step());
  Course course{{}, network.now()};
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    EXPECT_TRUE(conversations[rank]->done());
    for (std::uint32_t peer = 0; peer < ranks; ++peer)
      course.orders.push_back(conversations[rank]->order_from(peer));
    transports[rank]->close(0);
  }
  return course;
}

TEST(SimulatedNetwork, BringsEverythingWhateverTheSeed) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) converse(3, seed, 20);
}

TEST(SimulatedNetwork, DoesTheSameForTheSameSeedAndElseSomethingElse) {
  EXPECT_EQ(converse(3, 7), converse(3, 7));
  EXPECT_NE(converse(3, 7), converse(3, 8));
}

TEST(SimulatedNetwork, LetsMessagesOvertakeEachOther) {
  const Course course = converse(2, 1);
  EXPECT_FALSE(std::is_sorted(course.orders[1].begin(), course.orders[1].end()));
}

class SimulatedPair : public testing::Test {
 protected:
  struct Sink final : MessageSink {
    Payload accept(std::uint32_t, const MessageHeader& header) override {
      if (refuse) throw TransportError("not in the plan");
      memory.emplace_back(header.payload_bytes + 1);
      return {memory.back().data(), {}};
    }
    void delivered(std::uint32_t, const MessageHeader& header, Payload) override {
      got.push_back(header.microbatch);
    }
    void sent(SendToken token) override { sent_tokens.push_back(token); }
    void peer_failed(std::uint32_t peer, const std::string&) override { failed.push_back(peer); }
    bool refuse = false;
    std::vector<std::vector<std::byte>> memory;
    std::vector<std::uint32_t> got;
    std::vector<SendToken> sent_tokens;
    std::vector<std::uint32_t> failed;
  };

  SimulatedPair() {
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      ranks[rank] = network.transport(rank);
      attached[rank] = ranks[rank]->attach(sinks[rank]);
    }
  }
  void send(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i)
      ranks[0]->send(1, numbered(i, payload.size()), {payload.data(), {}}, i);
  }
  void run() {
    do {
      for (const auto& rank : ranks)
        if (rank) rank->progress();
    } while (network.step());
  }

  SimulatedNetwork network{2, 3};
  Sink sinks[2];
  std::vector<std::byte> payload = std::vector<std::byte>(100);
  std::unique_ptr<Transport> ranks[2];
  Attachment attached[2];
};

TEST_F(SimulatedPair, StandStillOnceNothingIsUnderWay) {
  EXPECT_FALSE(network.step());
  EXPECT_EQ(network.now(), 0);
  send(1);
  EXPECT_FALSE(ranks[1]->progress()) << "time has not moved";
  EXPECT_TRUE(network.step());
  EXPECT_GT(network.now(), 0);
  run();
  EXPECT_FALSE(network.step());
}

TEST_F(SimulatedPair, HearOfSentNowBeforeAndNowAfterTheArrival) {
  send(50);
  int before = 0;
  int after = 0;
  std::size_t known = 0;
  do {
    ranks[0]->progress();
    ranks[1]->progress();
    for (; known < sinks[0].sent_tokens.size(); ++known) {
      const auto number = static_cast<std::uint32_t>(sinks[0].sent_tokens[known]);
      const auto& got = sinks[1].got;
      (std::find(got.begin(), got.end(), number) == got.end() ? before : after) += 1;
    }
  } while (network.step());
  EXPECT_GT(before, 5);
  EXPECT_GT(after, 5);
}

TEST_F(SimulatedPair, LoseWhatTheyAreToldTo) {
  network.lose(
      [](std::uint32_t, std::uint32_t, const MessageHeader& header) { return header.microbatch == 4; });
  send(10);
  run();
  EXPECT_THAT(sinks[1].got, testing::UnorderedElementsAre(0, 1, 2, 3, 5, 6, 7, 8, 9));
  EXPECT_EQ(sinks[0].sent_tokens.size(), 10u);
}

TEST_F(SimulatedPair, HearOfADeathOnceAndGetTheirPayloadsBack) {
  send(10);
  network.kill(1);
  run();
  EXPECT_EQ(sinks[0].failed, std::vector<std::uint32_t>{1});
  EXPECT_EQ(sinks[0].sent_tokens.size(), 10u);
  EXPECT_TRUE(sinks[1].got.empty());
  EXPECT_TRUE(sinks[1].failed.empty());
  EXPECT_THROW(send(1), PeerFailure);
}

TEST_F(SimulatedPair, GetNothingFromTheDead) {
  send(10);
  network.kill(0);
  payload = {};
  run();
  EXPECT_TRUE(sinks[1].got.empty());
  EXPECT_EQ(sinks[1].failed, std::vector<std::uint32_t>{0});
}

TEST_F(SimulatedPair, TakeATransportWithoutGoodbyeForDead) {
  ranks[0].reset();
  run();
  EXPECT_EQ(sinks[1].failed, std::vector<std::uint32_t>{0});
}

TEST_F(SimulatedPair, StillGetWhatWasSentBeforeAGoodbye) {
  send(10);
  ranks[0]->close(0);
  EXPECT_THROW(send(1), TransportError);
  ranks[0].reset();
  payload = {};
  run();
  EXPECT_EQ(sinks[1].got.size(), 10u);
  EXPECT_TRUE(sinks[1].failed.empty());
}

TEST_F(SimulatedPair, GoOnAfterTheirSinkHasThrown) {
  send(3);
  sinks[1].refuse = true;
  int thrown = 0;
  do {
    for (const auto& rank : ranks) try {
        while (rank->progress()) {
        }
      } catch (const TransportError&) {
        ++thrown;
      }
  } while (network.step());
  EXPECT_EQ(thrown, 3);
  EXPECT_TRUE(sinks[1].got.empty());
  EXPECT_EQ(sinks[0].sent_tokens.size(), 3u);
}

TEST_F(SimulatedPair, LetGoOfTheMemoryOfASinkThatGoes) {
  send(10);
  attached[0].end();
  payload = {};
  const auto progress = [&] { return ranks[1]->progress(); };
  do {
    progress();
  } while (network.step());
  EXPECT_EQ(sinks[1].got.size(), 10u) << "what was sent still arrives";
  EXPECT_THROW(send(1), TransportError);
  EXPECT_THROW(ranks[0]->progress(), TransportError);
}

TEST_F(SimulatedPair, RefuseMemoryOfADevice) {
  EXPECT_THROW(ranks[0]->send(1, numbered(0, 100), {payload.data(), Device{DeviceKind::cuda, 0}}, 0),
               TransportError);
}

TEST_F(SimulatedPair, HaveOneTransportEach) {
  EXPECT_THROW(static_cast<void>(network.transport(0)), TransportError);
}

}  // namespace
}  // namespace weft
