#include "weft/transport/inproc/inproc_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "weft/base/error.h"
#include "weft/tests/support/allocation_count.h"
#include "weft/tests/transport/conversation.h"

namespace weft {
namespace {

constexpr Nanoseconds second = 1'000'000'000;

/// Takes everything into one buffer and allocates nothing.
class QuietSink final : public MessageSink {
 public:
  Payload accept(std::uint32_t, const MessageHeader& header) override {
    if (refuse) throw TransportError("not in the plan");
    buffer.resize(std::max<std::size_t>(buffer.size(), header.payload_bytes));
    return {buffer.data(), device};
  }
  void delivered(std::uint32_t, const MessageHeader& header, Payload) override {
    ++received;
    last_sequence = header.sequence;
  }
  void sent(SendToken) override { ++sent_count; }
  void peer_failed(std::uint32_t peer, const std::string& reason) override {
    failed.emplace_back(peer, reason);
  }

  std::vector<std::byte> buffer;
  std::uint64_t received = 0;
  std::uint64_t sent_count = 0;
  std::uint32_t last_sequence = 0;
  bool refuse = false;
  Device device;  // of the buffer, as it says
  std::vector<std::pair<std::uint32_t, std::string>> failed;
};

class TwoRanks : public testing::Test {
 protected:
  TwoRanks() : ranks(make_inproc_transports(2)) {
    attached[0] = ranks[0]->attach(sinks[0]);
    attached[1] = ranks[1]->attach(sinks[1]);
  }
  void send(std::uint32_t from, std::uint32_t number = 0) {
    ranks[from]->send(1 - from, test::numbered(number, payload.size()), {payload.data(), {}}, number);
  }
  bool readable(std::uint32_t rank) {
    pollfd descriptor{ranks[rank]->descriptor(), POLLIN, 0};
    return poll(&descriptor, 1, 0) == 1;
  }

  QuietSink sinks[2];
  std::vector<std::byte> payload = std::vector<std::byte>(1000);
  std::vector<std::unique_ptr<Transport>> ranks;
  Attachment attached[2];
};

TEST_F(TwoRanks, MoreMessagesThanTheRingHoldsAllArriveInOrder) {
  const std::uint32_t count = 1000;
  for (std::uint32_t i = 0; i < count; ++i) send(0, i);
  while (sinks[1].received < count) {
    ASSERT_TRUE(ranks[1]->progress());
    EXPECT_EQ(sinks[1].last_sequence + 1, sinks[1].received);
    ranks[0]->progress();
  }
  ranks[0]->progress();
  EXPECT_EQ(sinks[0].sent_count, count);
}

TEST_F(TwoRanks, NothingIsAllocatedOnceWarm) {
  const auto round = [this] {
    for (std::uint32_t i = 0; i < 100; ++i) {
      send(0, i);
      send(1, i);
    }
    while (ranks[0]->progress() | ranks[1]->progress()) {
    }
  };
  round();
  const std::uint64_t before = test::allocations_of_this_thread();
  for (int i = 0; i < 10; ++i) round();
  EXPECT_EQ(test::allocations_of_this_thread(), before);
  EXPECT_EQ(sinks[0].received, 1100u);
  EXPECT_EQ(sinks[1].sent_count, 1100u);
}

TEST_F(TwoRanks, ASenderLearnsOfSentOnlyInItsOwnProgress) {
  send(0);
  ranks[1]->progress();
  EXPECT_EQ(sinks[0].sent_count, 0u);
  ranks[0]->progress();
  EXPECT_EQ(sinks[0].sent_count, 1u);
  EXPECT_FALSE(ranks[0]->progress());
}

TEST_F(TwoRanks, AnArmedRankIsWokenByAMessageAndByItsConsumption) {
  ASSERT_TRUE(ranks[1]->arm());
  EXPECT_FALSE(readable(1));
  send(0);
  EXPECT_TRUE(readable(1));
  ASSERT_TRUE(ranks[0]->arm());
  ranks[1]->progress();
  EXPECT_TRUE(readable(0));
  EXPECT_FALSE(ranks[0]->arm());  // first look at what has come
  ranks[0]->progress();
  EXPECT_TRUE(ranks[0]->arm());
}

TEST_F(TwoRanks, ArmingIsRefusedWhileThereIsWork) {
  send(0);
  EXPECT_FALSE(ranks[1]->arm());
  ranks[1]->progress();
  EXPECT_FALSE(ranks[0]->arm());
  ranks[0]->progress();
  EXPECT_TRUE(ranks[0]->arm());
  EXPECT_TRUE(ranks[1]->arm());
}

TEST_F(TwoRanks, WakeFromAnotherThreadIsNotLostBeforeOrAfterArming) {
  std::thread([this] { ranks[0]->wake(); }).join();
  EXPECT_FALSE(ranks[0]->arm());
  ASSERT_TRUE(ranks[0]->arm());
  EXPECT_FALSE(readable(0));
  std::thread([this] { ranks[0]->wake(); }).join();
  EXPECT_TRUE(readable(0));
}

TEST_F(TwoRanks, ARankThatEndsWithoutCloseHasFailed) {
  send(0);
  ASSERT_TRUE(ranks[0]->arm());
  ranks[1].reset();
  EXPECT_TRUE(readable(0));
  ranks[0]->progress();
  ASSERT_EQ(sinks[0].failed.size(), 1u);
  EXPECT_EQ(sinks[0].failed[0].first, 1u);
  EXPECT_EQ(sinks[0].sent_count, 1u) << "the payload is free again";
  ranks[0]->progress();
  EXPECT_EQ(sinks[0].failed.size(), 1u) << "told once";
  EXPECT_THROW(send(0), PeerFailure);
}

TEST_F(TwoRanks, WhatAFailedRankHadSentIsNotReadAnyMore) {
  send(0);
  ranks[0].reset();
  payload = {};
  ranks[1]->progress();
  EXPECT_EQ(sinks[1].received, 0u);
  EXPECT_EQ(sinks[1].failed.size(), 1u);
}

TEST_F(TwoRanks, ARankThatEndsAfterCloseHasNotFailed) {
  send(0);
  std::thread other([this] { ranks[1]->close(now_ns() + 30 * second); });
  ranks[0]->close(now_ns() + 30 * second);
  other.join();
  EXPECT_EQ(sinks[1].received, 1u) << "nothing sent before close is lost";
  EXPECT_EQ(sinks[0].sent_count, 1u);
  ranks[1].reset();
  ranks[0]->progress();
  EXPECT_TRUE(sinks[0].failed.empty());
  EXPECT_THROW(send(0), TransportError);
}

TEST_F(TwoRanks, CloseGivesUpAtItsDeadline) {
  send(0);
  ranks[0]->close(now_ns() + second / 50);  // the other rank never answers
  ranks[0].reset();
  ranks[1]->progress();
  EXPECT_EQ(sinks[1].failed.size(), 1u) << "it left although its message was not taken";
}

TEST_F(TwoRanks, WhatTheSinkThrowsLeavesProgressAndTheNextMessageStillArrives) {
  send(0);
  send(0);
  sinks[1].refuse = true;
  EXPECT_THROW(ranks[1]->progress(), TransportError);
  sinks[1].refuse = false;
  ranks[1]->progress();
  EXPECT_EQ(sinks[1].received, 1u);
  ranks[0]->progress();
  EXPECT_EQ(sinks[0].sent_count, 2u);
}

TEST_F(TwoRanks, SendingToOneselfOrToNobodyIsRefused) {
  EXPECT_THROW(ranks[0]->send(0, test::numbered(0, 0), {}, 0), TransportError);
  EXPECT_THROW(ranks[0]->send(2, test::numbered(0, 0), {}, 0), TransportError);
}

TEST_F(TwoRanks, MemoryOfADeviceIsRefusedOnBothSides) {
  const Device gpu{DeviceKind::cuda, 1};
  try {
    ranks[0]->send(1, test::numbered(0, payload.size()), {payload.data(), gpu}, 0);
    FAIL() << "taken";
  } catch (const TransportError& error) {
    EXPECT_STREQ(error.what(), "a payload lies on cuda:1, and inproc moves CPU memory only");
  }
  send(0);
  sinks[1].device = gpu;
  EXPECT_THROW(ranks[1]->progress(), TransportError);
  EXPECT_EQ(sinks[1].received, 0u);
}

TEST_F(TwoRanks, WithoutASinkNothingIsSentOrReceived) {
  attached[0].end();
  EXPECT_THROW(send(0), TransportError);
  EXPECT_THROW(ranks[0]->progress(), TransportError);
}

TEST_F(TwoRanks, HaveOneSinkAtATime) {
  QuietSink other;
  EXPECT_THROW(static_cast<void>(ranks[0]->attach(other)), TransportError);
  send(0);
  ranks[1]->progress();
  attached[0].end();
  attached[0] = ranks[0]->attach(other);
  send(1);
  ranks[0]->progress();
  EXPECT_EQ(other.received, 1u);
}

TEST_F(TwoRanks, ASinkThatGoesTakesItsPayloadsAlong) {
  for (std::uint32_t i = 0; i < 100; ++i) send(0, i);  // more than the ring holds
  attached[0].end();
  payload = {};
  EXPECT_FALSE(ranks[1]->progress());
  EXPECT_EQ(sinks[1].received, 0u);
  EXPECT_TRUE(ranks[1]->arm()) << "what was withdrawn keeps nobody awake";
  EXPECT_THROW(static_cast<void>(ranks[0]->attach(sinks[0])), TransportError);
  EXPECT_TRUE(sinks[1].failed.empty()) << "the rank may still tell why";
  ranks[0].reset();
  ranks[1]->progress();
  EXPECT_EQ(sinks[1].failed.size(), 1u);
}

TEST_F(TwoRanks, MessagesWithoutPayloadOutliveTheirSink) {
  ranks[0]->send(1, test::numbered(0, 0), {}, 0);
  attached[0].end();
  ranks[1]->progress();
  EXPECT_EQ(sinks[1].received, 1u);
  attached[0] = ranks[0]->attach(sinks[0]);
}

TEST_F(TwoRanks, ATransportMayGoBeforeItsSink) {
  send(0);
  ranks.clear();
  attached[0].end();
  attached[1] = {};
}

TEST(InprocTransport, AloneHasNothingToDoAndCloses) {
  auto ranks = make_inproc_transports(1);
  QuietSink sink;
  const Attachment attached = ranks[0]->attach(sink);
  EXPECT_FALSE(ranks[0]->progress());
  ranks[0]->close(now_ns() + 30 * second);
  EXPECT_EQ(ranks[0]->world_size(), 1u);
}

// For the thread sanitizer above all: a rank leaves in the middle of everything.
TEST(InprocTransport, LeavingWhileOthersReadIsSafe) {
  for (int round = 0; round < 20; ++round) {
    auto ranks = make_inproc_transports(3);
    std::vector<std::thread> threads;
    for (std::uint32_t rank = 0; rank < 3; ++rank)
      threads.emplace_back([own = std::move(ranks[rank]), rank, round]() mutable {
        QuietSink sink;
        std::vector<std::byte> payload(20'000);
        const Attachment attached = own->attach(sink);
        const int turns = rank == 0 ? 5 + round : 1000;
        for (int turn = 0; turn < turns && sink.failed.empty(); ++turn) {
          for (std::uint32_t peer = 0; peer < 3; ++peer)
            if (peer != rank) own->send(peer, test::numbered(0, payload.size()), {payload.data(), {}}, 0);
          for (int i = 0; i < 4; ++i) own->progress();
        }
        // The sink leaves first, then the payload goes, and the transport last.
      });
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace weft
