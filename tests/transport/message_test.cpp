#include "weft/transport/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

using Wire = std::array<std::byte, MessageHeader::wire_bytes>;

Wire wire_of(const MessageHeader& header) {
  Wire bytes;
  encode(header, bytes);
  return bytes;
}

MessageHeader example() {
  MessageHeader header;
  header.kind = MessageKind::gradient;
  header.phase = Phase::evaluate;
  header.dtype = DType::bfloat16;
  header.tensor = 0x11;
  header.step = 0x22232425;
  header.group = 0x3132;
  header.source_stage = 0x4142;
  header.target_stage = 0x5152;
  header.microbatch = 0x61626364;
  header.chunk = 0x71727374;
  header.sequence = 0x81828384;
  header.shape = Shape{3, 0x102, 5};
  header.payload_bytes = 2 * 3 * 0x102 * 5;
  return header;
}

void expect_refused(const Wire& bytes, const std::string& field) {
  try {
    static_cast<void>(decode(bytes));
    ADD_FAILURE() << "a header with a wrong " << field << " was taken";
  } catch (const TransportError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr(field));
  }
}

TEST(MessageHeader, HasTheBytesOfItsTable) {
  const auto b = [](int value) { return static_cast<std::byte>(value); };
  const Wire expected{
      b('W'),  b('E'),  b('F'),  b('1'),  b(1),    b(2),    b(1),    b(2),     // magic .. dtype
      b(0x25), b(0x24), b(0x23), b(0x22), b(0x32), b(0x31), b(0x11), b(3),     // step .. dims
      b(0x42), b(0x41), b(0x52), b(0x51), b(0x64), b(0x63), b(0x62), b(0x61),  // stages, micro-batch
      b(0x74), b(0x73), b(0x72), b(0x71), b(0x84), b(0x83), b(0x82), b(0x81),  // chunk, sequence
      b(0x3c), b(0x1e), b(0),    b(0),    b(0),    b(0),    b(0),    b(0),     // payload bytes
      b(3),    b(0),    b(0),    b(0),    b(2),    b(1),    b(0),    b(0),     // dims 0, 1
      b(5),    b(0),    b(0),    b(0),    b(0),    b(0),    b(0),    b(0)};    // dims 2, 3; 4 and 5 are 0
  EXPECT_EQ(wire_of(example()), expected);
}

TEST(MessageHeader, SurvivesTheWay) {
  const MessageHeader sent = example();
  const MessageHeader got = decode(wire_of(sent));
  EXPECT_EQ(got.kind, sent.kind);
  EXPECT_EQ(got.phase, sent.phase);
  EXPECT_EQ(got.dtype, sent.dtype);
  EXPECT_EQ(got.tensor, sent.tensor);
  EXPECT_EQ(got.step, sent.step);
  EXPECT_EQ(got.group, sent.group);
  EXPECT_EQ(got.source_stage, sent.source_stage);
  EXPECT_EQ(got.target_stage, sent.target_stage);
  EXPECT_EQ(got.microbatch, sent.microbatch);
  EXPECT_EQ(got.chunk, sent.chunk);
  EXPECT_EQ(got.sequence, sent.sequence);
  EXPECT_EQ(got.payload_bytes, sent.payload_bytes);
  EXPECT_EQ(got.shape, sent.shape);
}

TEST(MessageHeader, WithAWrongFieldIsRefusedByName) {
  const std::vector<std::tuple<std::size_t, int, std::string>> wrong{
      {0, 'w', "magic"},  {4, 2, "version"}, {5, 0, "kind"},         {5, 7, "kind"},
      {6, 2, "phase"},    {7, 8, "dtype"},   {15, 7, "dims"},        {32, 0x3d, "payload size"},
      {39, 0x80, "size"}, {40, 4, "size"},   {52, 1, "unused dims"}, {63, 1, "unused dims"}};
  for (const auto& [offset, value, field] : wrong) {
    Wire bytes = wire_of(example());
    bytes[offset] = static_cast<std::byte>(value);
    expect_refused(bytes, field);
  }
}

TEST(MessageHeader, OfAnotherLengthIsRefused) {
  const Wire bytes = wire_of(example());
  EXPECT_THROW(static_cast<void>(decode(std::span(bytes).first(63))), TransportError);
  EXPECT_THROW(static_cast<void>(decode({})), TransportError);
}

TEST(MessageHeader, WhoseShapeOverflowsIsRefused) {
  MessageHeader header = example();
  const std::uint32_t most = 0xffffffff;
  header.shape = Shape{most, most, most, most, most, most};
  expect_refused(wire_of(header), "shape");
  header.shape = Shape{1u << 31, 1u << 31, 4};  // 2^64 elements: 0 when the product wraps
  header.payload_bytes = 0;
  expect_refused(wire_of(header), "shape");
  header.kind = MessageKind::credit;  // also where the shape counts for nothing
  expect_refused(wire_of(header), "shape");
}

TEST(MessageHeader, OfACreditCarriesNoPayload) {
  MessageHeader header;
  header.kind = MessageKind::credit;
  EXPECT_EQ(decode(wire_of(header)).payload_bytes, 0u);
  header.payload_bytes = 1;
  expect_refused(wire_of(header), "payload size");
}

TEST(MessageHeader, OfAScalarAndOfNothingIsTaken) {
  MessageHeader header;
  header.dtype = DType::float64;
  header.payload_bytes = 8;
  EXPECT_EQ(decode(wire_of(header)).shape.rank(), 0u);
  header.shape = Shape{7, 0};
  header.payload_bytes = 0;
  EXPECT_EQ(decode(wire_of(header)).shape.elements(), 0u);
}

// What is taken has one spelling only: nothing hides in bytes that are not looked at.
TEST(MessageHeader, ThatIsTakenEncodesToTheSameBytes) {
  std::mt19937 random(7);
  int taken = 0;
  for (int round = 0; round < 40'000; ++round) {
    Wire bytes = wire_of(example());
    const int changes = 1 + static_cast<int>(random() % 2);
    for (int i = 0; i < changes; ++i) bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    try {
      const MessageHeader header = decode(bytes);
      ++taken;
      ASSERT_EQ(wire_of(header), bytes);
    } catch (const TransportError&) {
    }
  }
  EXPECT_GT(taken, 200);
}

}  // namespace
}  // namespace weft
