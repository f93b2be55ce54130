#include "weft/actors/outbox.h"

#include <gtest/gtest.h>

#include "recording_transport.h"
#include "weft/base/error.h"
#include "weft/tests/support/allocation_count.h"

namespace weft {
namespace {

/// Rank 0 with stage 0, which sends activations of one tensor to rank 1; the receiver has three buffers.
class OutboxTest : public testing::Test {
 protected:
  static std::vector<EdgePlan> edges() {
    EdgePlan edge;
    edge.target_stage = 1;
    edge.target_rank = 1;
    edge.credits = 3;
    edge.tensors = {{DType::float32, Shape{2, 3}}};
    return {edge};
  }
  bool has_room() const { return outbox.has_room(MessageKind::activation, 0); }
  void send(std::uint32_t microbatch) {
    std::vector<Buffer>& buffers = buffers_;
    outbox.reserve(MessageKind::activation, 0, buffers);
    outbox.send(MessageKind::activation, 0, microbatch, 0,
                Tensor(std::move(buffers[0]), DType::float32, Shape{1, 3}));
    buffers.clear();
  }
  static MessageHeader credit() {
    MessageHeader header;
    header.kind = MessageKind::credit;
    header.target_stage = 1;
    return header;
  }

  test::RecordingTransport transport;
  Arena arena{Outbox::arena_bytes(0, edges()), "test"};
  Outbox outbox{0, edges(), arena, transport};
  std::vector<Buffer> buffers_;
};

TEST_F(OutboxTest, TakesNoMoreMemoryThanItSays) { EXPECT_EQ(arena.used(), arena.size()); }

TEST_F(OutboxTest, SendsWhatTheHeaderSays) {
  outbox.begin_step(5, Phase::evaluate);
  send(7);
  ASSERT_EQ(transport.sent.size(), 1u);
  const auto& message = transport.sent[0];
  EXPECT_EQ(message.to, 1u);
  EXPECT_EQ(message.header.step, 5u);
  EXPECT_EQ(message.header.phase, Phase::evaluate);
  EXPECT_EQ(message.header.microbatch, 7u);
  EXPECT_EQ(message.header.shape, (Shape{1, 3}));
  EXPECT_EQ(message.header.payload_bytes, 12u);
  EXPECT_EQ(outbox.sent_bytes(), 12u);
}

TEST_F(OutboxTest, HasRoomForAsManyAsThereAreBuffers) {
  send(0);
  EXPECT_TRUE(has_room());
  send(1);
  EXPECT_FALSE(has_room());
  outbox.sent(transport.sent[1].token);
  EXPECT_TRUE(has_room());
}

TEST_F(OutboxTest, HasRoomForAsManyAsThereAreCredits) {
  for (std::uint32_t i = 0; i < 3; ++i) {
    send(i);
    outbox.sent(transport.sent[i].token);
  }
  EXPECT_FALSE(has_room());
  outbox.take_credit(1, credit());
  EXPECT_TRUE(has_room());
}

TEST_F(OutboxTest, RefusesCreditsThatNobodyHas) {
  EXPECT_THROW(outbox.take_credit(1, credit()), TransportError) << "all are here";
  send(0);
  EXPECT_THROW(outbox.take_credit(0, credit()), TransportError) << "from another rank";
  MessageHeader wrong = credit();
  wrong.tensor = 1;
  EXPECT_THROW(outbox.take_credit(1, wrong), TransportError);
  wrong = credit();
  wrong.source_stage = 9;
  EXPECT_THROW(outbox.take_credit(1, wrong), TransportError);
  wrong = credit();
  wrong.target_stage = 0;
  EXPECT_THROW(outbox.take_credit(1, wrong), TransportError);
  outbox.take_credit(1, credit());
}

TEST_F(OutboxTest, AllocatesNothing) {
  const auto round = [this] {
    send(0);
    outbox.sent(transport.sent.back().token);
    outbox.take_credit(1, credit());
  };
  round();
  const std::uint64_t before = test::allocations_of_this_thread();
  for (int i = 0; i < 100; ++i) round();
  EXPECT_EQ(test::allocations_of_this_thread(), before);
}

}  // namespace
}  // namespace weft
