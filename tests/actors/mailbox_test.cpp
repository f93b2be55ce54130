// How the mailbox ties inbox, outbox and side channel, and what it says to tensors that a stage returns.
#include "weft/actors/mailbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "recording_transport.h"
#include "weft/base/error.h"

namespace weft {
namespace {

using testing::HasSubstr;

/// Rank 0 with stages 0 and 1; 0 hands its activation over to 1, 1 sends its own to stage 2 of rank 1, and
/// gets a gradient from there.
class MailboxTest : public testing::Test {
 protected:
  static std::vector<EdgePlan> edges() {
    EdgePlan local;
    local.target_stage = 1;
    local.credits = 2;
    local.tensors = {{DType::float32, Shape{4}}};
    EdgePlan remote = local;
    remote.source_stage = 1;
    remote.target_stage = 2;
    remote.target_rank = 1;
    EdgePlan back = remote;
    back.kind = MessageKind::gradient;
    std::swap(back.source_stage, back.target_stage);
    std::swap(back.source_rank, back.target_rank);
    return {local, remote, back};
  }
  MailboxTest() { mailbox.begin_step(1, Phase::train); }
  std::vector<Buffer>& reserve(std::uint16_t stage) {
    reserved.clear();
    mailbox.reserve(MessageKind::activation, stage, reserved);
    return reserved;
  }
  void post(std::uint16_t stage, Tensor tensor) {
    mailbox.post(MessageKind::activation, stage, 3, TensorList(std::move(tensor)), reserved);
    reserved.clear();
  }
  Tensor own(DType dtype, const Shape& shape) {
    return Tensor(Buffer::borrowed(reinterpret_cast<std::byte*>(values), sizeof(values)), dtype, shape);
  }
  std::string refusal(std::uint16_t stage, Tensor tensor) {
    try {
      post(stage, std::move(tensor));
    } catch (const Error& error) {
      return error.what();
    }
    return "taken";
  }

  float values[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  test::RecordingTransport transport;
  EventLoop loop{transport, 0};
  RankState state{0, 3, {0, 1}, 4, 4};
  Arena arena{Mailbox::arena_bytes(0, edges()), "test"};
  Mailbox mailbox{0, edges(), 4, arena, loop, transport, state};
  std::vector<Buffer> reserved;
};

TEST_F(MailboxTest, SendsFromTheReservedBufferWithoutACopy) {
  Buffer& buffer = reserve(1)[0];
  const std::byte* memory = buffer.data();
  post(1, Tensor(std::move(buffer), DType::float32, Shape{4}));
  ASSERT_EQ(transport.sent.size(), 1u);
  EXPECT_EQ(transport.sent[0].payload.data, memory);
}

TEST_F(MailboxTest, CopiesATensorInMemoryOfTheStagesOwn) {
  const std::byte* memory = reserve(1)[0].data();
  post(1, own(DType::float32, Shape{3}));
  ASSERT_EQ(transport.sent.size(), 1u);
  EXPECT_EQ(transport.sent[0].payload.data, memory);
  EXPECT_EQ(transport.sent[0].header.shape, Shape{3});
  EXPECT_EQ(std::memcmp(memory, values, 12), 0);
}

TEST_F(MailboxTest, HandsOverACopyToo) {
  reserve(0);
  post(0, own(DType::float32, Shape{4}));
  EXPECT_TRUE(transport.sent.empty());
  values[1] = 0;
  const TensorList list = mailbox.take(MessageKind::activation, 1, 3);
  EXPECT_EQ(list[0].as<float>()[1], 2.0f) << "the stage may use its memory again";
}

TEST_F(MailboxTest, CopiesAReceivedTensorThatAStagePassesOn) {
  reserve(0);
  post(0, own(DType::float32, Shape{4}));
  TensorList list = mailbox.take(MessageKind::activation, 1, 3);
  const std::byte* memory = reserve(1)[0].data();
  post(1, std::move(list[0]));
  EXPECT_EQ(transport.sent[0].payload.data, memory);
  EXPECT_EQ(std::memcmp(memory, values, 16), 0);
}

TEST_F(MailboxTest, RefusesTensorsThatAreNotWhatThePlanSays) {
  reserve(1);
  EXPECT_THAT(refusal(1, own(DType::int32, Shape{4})),
              HasSubstr("stage 1, micro-batch 3: tensor 0 of its activation is int32, its plan says"));
  reserve(0);
  EXPECT_THAT(refusal(0, own(DType::float32, Shape{5})),
              HasSubstr("stage 0, micro-batch 3: tensor 0 of its activation is [5], its plan says at most"));
  reserve(0);
  EXPECT_THAT(refusal(0, own(DType::float32, Shape{2, 2})), HasSubstr("is [2, 2]"));
  reserve(0);
  Buffer taken = std::move(reserved[0]);
  EXPECT_THAT(refusal(0, own(DType::float32, Shape{4})), HasSubstr("MicrobatchContext::allocate gave"));
  taken.release();
  EXPECT_THROW(mailbox.post(MessageKind::activation, 0, 3, TensorList(), reserved), Error);
}

TEST_F(MailboxTest, ReturnsCreditsUntilItLeaves) {
  MessageHeader header;
  header.kind = MessageKind::gradient;
  header.dtype = DType::float32;
  header.step = 1;
  header.source_stage = 2;
  header.target_stage = 1;
  header.shape = Shape{4};
  header.payload_bytes = 16;
  for (const std::uint32_t microbatch : {0u, 1u}) {
    header.microbatch = microbatch;
    mailbox.delivered(1, header, mailbox.accept(1, header));
  }
  static_cast<void>(mailbox.take(MessageKind::gradient, 1, 0));
  ASSERT_EQ(transport.sent.size(), 1u);
  EXPECT_EQ(transport.sent[0].header.kind, MessageKind::credit);
  mailbox.leave();
  static_cast<void>(mailbox.take(MessageKind::gradient, 1, 1));
  EXPECT_EQ(transport.sent.size(), 1u);
}

TEST_F(MailboxTest, ACreditThatCannotLeaveEndsTheTurnNotTheProcess) {
  MessageHeader header;
  header.kind = MessageKind::gradient;
  header.dtype = DType::float32;
  header.step = 1;
  header.source_stage = 2;
  header.target_stage = 1;
  header.shape = Shape{4};
  header.payload_bytes = 16;
  mailbox.delivered(1, header, mailbox.accept(1, header));
  transport.refuse = true;
  static_cast<void>(mailbox.take(MessageKind::gradient, 1, 0));
  EXPECT_THROW(loop.turn(), TransportError);
}

}  // namespace
}  // namespace weft
