// What may arrive from another rank through UCX, well-formed and not.
#include "weft/transport/ucx/assembly.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "weft/base/error.h"
#include "weft/tests/transport/conversation.h"
#include "weft/transport/ucx/control.h"

namespace weft::ucx {
namespace {

using Wire = std::array<std::byte, MessageHeader::wire_bytes>;

constexpr std::uint64_t chunk_size = 1024;
constexpr std::uint32_t sender = 3;

/// Takes messages up to a largest size, as a plan would.
class Sink final : public MessageSink {
 public:
  Payload accept(std::uint32_t from, const MessageHeader& header) override {
    EXPECT_EQ(from, sender);
    if (header.payload_bytes > 1'000'000) throw TransportError("larger than the plan allows");
    payloads.emplace_back(header.payload_bytes + 1);  // never without an address
    return {payloads.back().data(), device};
  }
  void delivered(std::uint32_t, const MessageHeader&, Payload) override {}
  void sent(SendToken) override {}
  void peer_failed(std::uint32_t, const std::string&) override {}
  std::vector<std::vector<std::byte>> payloads;
  Device device;
};

struct Chunk {
  Wire header;
  std::vector<std::byte> data;
};

std::vector<Chunk> chunks_of(std::uint32_t sequence, std::uint64_t bytes) {
  std::vector<std::byte> payload(bytes);
  test::fill_payload(payload, sender, sequence);
  std::vector<Chunk> chunks;
  MessageHeader header = test::numbered(sequence, bytes);
  header.sequence = sequence;
  for (std::uint64_t offset = 0; offset < bytes || header.chunk == 0; offset += chunk_size) {
    const auto part = std::span(payload).subspan(offset, std::min(chunk_size, bytes - offset));
    Chunk chunk{{}, {part.begin(), part.end()}};
    encode(header, chunk.header);
    chunks.push_back(std::move(chunk));
    ++header.chunk;
  }
  return chunks;
}

class UcxAssembly : public testing::Test {
 protected:
  UcxAssembly() { assembly.set_chunk_bytes(chunk_size); }
  bool add(const Chunk& chunk) { return assembly.add(sink, chunk.header, chunk.data, arrival); }
  void expect_refused(const Chunk& chunk, const std::string& why) {
    try {
      static_cast<void>(add(chunk));
      ADD_FAILURE() << "taken, expected: " << why;
    } catch (const TransportError& error) {
      EXPECT_THAT(error.what(), testing::HasSubstr(why));
    }
  }
  void expect_payload(std::uint32_t sequence, std::uint64_t bytes) {
    ASSERT_EQ(arrival.header.sequence, sequence);
    ASSERT_EQ(arrival.header.payload_bytes, bytes);
    ASSERT_TRUE(test::is_payload({arrival.payload.data, bytes}, sender, sequence));
  }

  Sink sink;
  Assembly assembly{sender};
  Arrival arrival;
};

TEST_F(UcxAssembly, PutsChunksOfEverySizeTogether) {
  std::uint32_t sequence = 0;
  for (const std::uint64_t bytes : {0UL, 1UL, 1023UL, 1024UL, 1025UL, 2048UL, 70'000UL, 200'001UL}) {
    const auto chunks = chunks_of(sequence, bytes);
    for (std::size_t i = 0; i < chunks.size(); ++i) EXPECT_EQ(add(chunks[i]), i + 1 == chunks.size());
    expect_payload(sequence++, bytes);
  }
  EXPECT_EQ(assembly.complete(), 8u);
}

TEST_F(UcxAssembly, DoesNotCareAboutOrder) {
  std::mt19937 random(5);
  std::vector<std::pair<std::uint32_t, Chunk>> all;
  for (std::uint32_t sequence = 0; sequence < 12; ++sequence)
    for (Chunk& chunk : chunks_of(sequence, 500 + 3000 * sequence))
      all.emplace_back(sequence, std::move(chunk));
  std::shuffle(all.begin(), all.end(), random);
  int complete = 0;
  for (const auto& [sequence, chunk] : all)
    if (add(chunk)) {
      ++complete;
      expect_payload(sequence, 500 + 3000 * sequence);
    }
  EXPECT_EQ(complete, 12);
}

TEST_F(UcxAssembly, KeepsTrackOfALongRow) {
  for (std::uint32_t sequence = 0; sequence < 1000; ++sequence) ASSERT_TRUE(add(chunks_of(sequence, 1)[0]));
  expect_refused(chunks_of(999, 1)[0], "where 1000 is due");
}

TEST_F(UcxAssembly, RefusesAMessageThatCameBefore) {
  const auto chunks = chunks_of(0, 100);
  EXPECT_TRUE(add(chunks[0]));
  expect_refused(chunks[0], "sequence number");
  expect_refused(chunks_of(500, 100)[0], "sequence number");
}

TEST_F(UcxAssembly, RefusesChunksThatAreNotWhatTheirHeaderSays) {
  auto chunks = chunks_of(0, 3000);
  Chunk wrong = chunks[1];
  wrong.data.pop_back();
  expect_refused(wrong, "chunk 1 with 1023 of 3000 bytes");
  wrong.data.resize(chunk_size + 1);
  expect_refused(wrong, "chunk 1 with 1025");
  wrong.data.resize(4000);
  expect_refused(wrong, "chunk 1 with 4000");
  wrong = chunks[2];
  wrong.data.resize(chunk_size);  // it would write beyond the payload
  expect_refused(wrong, "chunk 2");
  MessageHeader header = decode(chunks[0].header);
  header.chunk = 3;
  encode(header, chunks[0].header);
  expect_refused(chunks[0], "chunk 3");
  header.chunk = 0xffffffff;
  encode(header, chunks[0].header);
  expect_refused(chunks[0], "chunk 4294967295");
  EXPECT_TRUE(sink.payloads.empty());
}

TEST_F(UcxAssembly, RefusesAChunkTwiceAndChunksThatDisagree) {
  const auto chunks = chunks_of(0, 3000);
  EXPECT_FALSE(add(chunks[0]));
  expect_refused(chunks[0], "chunk 0 twice");
  expect_refused(chunks_of(0, 2999)[1], "disagree");
}

TEST_F(UcxAssembly, RefusesToHoldManyUnfinishedMessages) {
  for (std::uint32_t sequence = 0; sequence < 16; ++sequence) EXPECT_FALSE(add(chunks_of(sequence, 3000)[0]));
  expect_refused(chunks_of(16, 3000)[0], "unfinished");
}

TEST_F(UcxAssembly, TakesNoMemoryForASizeThatTheSinkRefuses) {
  Chunk chunk = chunks_of(0, 3000)[0];
  MessageHeader header = decode(chunk.header);
  header.shape = Shape{0xffffffff, 0x1000000};
  header.payload_bytes = 0xffffffffULL * 0x1000000;
  encode(header, chunk.header);
  expect_refused(chunk, "larger than the plan allows");
}

TEST_F(UcxAssembly, RefusesChunksBeforeTheirSizeIsKnown) {
  Assembly fresh{sender};
  const auto chunks = chunks_of(0, 3000);
  EXPECT_THROW(fresh.add(sink, chunks[0].header, chunks[0].data, arrival), TransportError);
  EXPECT_THROW(fresh.set_chunk_bytes(0), TransportError);
  EXPECT_THROW(fresh.set_chunk_bytes(UINT64_MAX), TransportError);
  EXPECT_THROW(assembly.set_chunk_bytes(2048), TransportError) << "said twice";
}

TEST_F(UcxAssembly, BeginsWholeMessagesOfTheirSizeOnly) {
  const auto chunks = chunks_of(0, 3000);
  EXPECT_THROW(static_cast<void>(assembly.begin_whole(sink, chunks[0].header, 2999)), TransportError);
  EXPECT_EQ(assembly.begin_whole(sink, chunks[0].header, 3000).header.payload_bytes, 3000u);
  EXPECT_EQ(assembly.complete(), 1u);
}

TEST_F(UcxAssembly, RefusesToCopyIntoMemoryOfADevice) {
  sink.device = {DeviceKind::cuda, 0};
  expect_refused(chunks_of(0, 100)[0], "its place is on a device");
  expect_refused(chunks_of(1, 3000)[0], "its place is on a device");
}

TEST_F(UcxAssembly, SurvivesAnythingThatArrives) {
  std::mt19937 random(11);
  int refused = 0;
  for (int round = 0; round < 20'000; ++round) {
    auto chunks = chunks_of(random() % 40, random() % 5000);
    Chunk chunk = chunks[random() % chunks.size()];
    for (std::uint32_t i = random() % 3; i > 0; --i)
      chunk.header[random() % chunk.header.size()] = static_cast<std::byte>(random());
    if (random() % 4 == 0) chunk.data.resize(random() % 5000);
    try {
      static_cast<void>(add(chunk));
    } catch (const TransportError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
}

TEST(UcxControl, SurvivesTheWayAndRefusesAnythingElse) {
  std::array<std::byte, Control::wire_bytes> bytes{};
  encode(Control{Control::What::goodbye, 0x1122334455667788}, bytes);
  EXPECT_EQ(decode_control(bytes).what, Control::What::goodbye);
  EXPECT_EQ(decode_control(bytes).value, 0x1122334455667788u);
  EXPECT_THROW(static_cast<void>(decode_control(std::span(bytes).first(15))), TransportError);
  EXPECT_THROW(static_cast<void>(decode_control({})), TransportError);
  bytes[4] = std::byte{5};
  EXPECT_THROW(static_cast<void>(decode_control(bytes)), TransportError);
  bytes[4] = std::byte{1};
  bytes[0] = std::byte{0};
  EXPECT_THROW(static_cast<void>(decode_control(bytes)), TransportError);
}

}  // namespace
}  // namespace weft::ucx
