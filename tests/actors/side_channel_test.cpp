#include "weft/actors/side_channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "recording_transport.h"
#include "weft/base/error.h"
#include "weft/tests/support/allocation_count.h"

namespace weft {
namespace {

class SideChannelTest : public testing::Test {
 protected:
  /// What the other rank, number 1, has sent arrives here.
  void arrive(const MessageHeader& header, const void* data, std::uint32_t from = 1) {
    const Payload place = channel->accept(from, header);
    if (header.payload_bytes != 0) std::memcpy(place.data, data, header.payload_bytes);
    channel->delivered(from, header, place);
    loop.wake();
  }
  static MessageHeader gradient(std::uint32_t tie, std::size_t bytes) {
    MessageHeader header;
    header.kind = MessageKind::tied_gradient;
    header.dtype = DType::float32;
    header.microbatch = tie;
    header.payload_bytes = bytes;
    return header;
  }
  static MessageHeader part(std::uint16_t group, std::uint32_t tag, std::size_t bytes) {
    MessageHeader header;
    header.kind = MessageKind::collective;
    header.dtype = DType::uint8;
    header.group = group;
    header.microbatch = tag;
    header.payload_bytes = bytes;
    return header;
  }
  std::string receive(std::uint16_t group, std::uint32_t tag) {
    std::vector<std::byte> bytes;
    loop.run(channel->receive_part(group, 1, tag, bytes));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  test::RecordingTransport transport;
  EventLoop loop{transport, 0};
  std::optional<SideChannel> channel{std::in_place, loop, transport};
};

TEST_F(SideChannelTest, HasAnyNumberOfTies) {
  constexpr std::uint32_t ties = 1000;
  std::vector<float> landed(ties);
  std::vector<SideChannel::Expectation> expected;
  for (std::uint32_t tie = 0; tie < ties; ++tie)
    expected.push_back(channel->expect(MessageKind::tied_gradient, tie, 1,
                                       {reinterpret_cast<std::byte*>(&landed[tie]), {}}, sizeof(float)));
  for (std::uint32_t tie = ties; tie-- > 0;) {
    const auto value = static_cast<float>(tie);
    arrive(gradient(tie, sizeof(value)), &value);
  }
  for (std::uint32_t tie = 0; tie < ties; ++tie) {
    loop.run(channel->receive(expected[tie]));
    EXPECT_EQ(landed[tie], static_cast<float>(tie));
  }
}

TEST_F(SideChannelTest, RefusesWhatNobodyExpects) {
  float landed = 0;
  const Payload place{reinterpret_cast<std::byte*>(&landed), {}};
  {
    const auto expected = channel->expect(MessageKind::tied_gradient, 3, 1, place, 4);
    EXPECT_THROW(static_cast<void>(channel->expect(MessageKind::tied_gradient, 3, 1, place, 4)), Error);
    EXPECT_NO_THROW(static_cast<void>(channel->accept(1, gradient(3, 4))));
    EXPECT_THROW(static_cast<void>(channel->accept(0, gradient(3, 4))), TransportError) << "another rank";
    EXPECT_THROW(static_cast<void>(channel->accept(1, gradient(3, 8))), TransportError) << "another size";
    EXPECT_THROW(static_cast<void>(channel->accept(1, gradient(2, 4))), TransportError) << "another tie";
    EXPECT_THROW(static_cast<void>(channel->accept(1, gradient(300, 4))), TransportError);
    MessageHeader sum = gradient(3, 4);
    sum.kind = MessageKind::tied_sum;
    EXPECT_THROW(static_cast<void>(channel->accept(1, sum)), TransportError) << "another kind";
  }
  EXPECT_THROW(static_cast<void>(channel->accept(1, gradient(3, 4))), TransportError)
      << "its memory may be gone";
  const auto again = channel->expect(MessageKind::tied_gradient, 3, 1, place, 4);
  EXPECT_NO_THROW(static_cast<void>(channel->accept(1, gradient(3, 4))));
}

TEST_F(SideChannelTest, MayGoBeforeAnExpectation) {
  const auto expected = channel->expect(MessageKind::tied_sum, 0, 1, {}, 4);
  channel.reset();
}

TEST_F(SideChannelTest, WaitsForTiedGradientsToLeave) {
  const float value = 2;
  channel->send_tied(1, MessageKind::tied_sum, 400, {reinterpret_cast<const std::byte*>(&value), {}}, 1);
  ASSERT_EQ(transport.sent.size(), 1u);
  EXPECT_EQ(transport.sent[0].header.microbatch, 400u);
  EXPECT_EQ(transport.sent[0].payload.data, reinterpret_cast<const std::byte*>(&value));
  Task<void> all = channel->sent_all();
  all.start(loop.ready());
  loop.turn();
  EXPECT_FALSE(all.done());
  channel->sent(transport.sent[0].token);
  loop.wake();
  loop.turn();
  EXPECT_TRUE(all.done());
}

TEST_F(SideChannelTest, CopiesPartsSoThatTheSenderMayForgetThem) {
  std::vector<std::byte> bytes(3, std::byte{5});
  channel->send_part(1, 2, 9, bytes);
  bytes = {};
  ASSERT_EQ(transport.sent.size(), 1u);
  EXPECT_EQ(transport.sent[0].header.group, 2u);
  EXPECT_EQ(transport.sent[0].header.microbatch, 9u);
  EXPECT_EQ(transport.sent[0].header.payload_bytes, 3u);
  EXPECT_EQ(transport.sent[0].payload.data[2], std::byte{5});
}

TEST_F(SideChannelTest, KeepsCollectivesOfGroupsApart) {
  arrive(part(1, 1, 3), "one");
  arrive(part(0, 2, 3), "two");
  arrive(part(0, 1, 4), "zero");
  arrive(part(1, 2, 0), nullptr);
  EXPECT_EQ(receive(0, 1), "zero");
  EXPECT_EQ(receive(1, 1), "one");
  EXPECT_EQ(receive(1, 2), "");
  EXPECT_EQ(receive(0, 2), "two");
}

TEST_F(SideChannelTest, RefusesPartsThatAreTooLarge) {
  EXPECT_THROW(static_cast<void>(channel->accept(1, part(0, 1, SideChannel::largest_part + 1))),
               TransportError);
}

TEST_F(SideChannelTest, AllocatesNothing) {
  const std::vector<std::byte> mine(100);
  std::vector<std::byte> theirs;
  theirs.reserve(100);
  const auto round = [&](std::uint32_t tag) {
    channel->send_part(1, 0, tag, mine);
    arrive(part(0, tag, 100), mine.data());
    theirs.clear();
    loop.run(channel->receive_part(0, 1, tag, theirs));
    channel->sent(transport.sent.back().token);
  };
  round(1);
  const std::uint64_t before = test::allocations_of_this_thread();
  for (std::uint32_t tag = 2; tag < 50; ++tag) round(tag);
  EXPECT_EQ(test::allocations_of_this_thread(), before);
}

}  // namespace
}  // namespace weft
