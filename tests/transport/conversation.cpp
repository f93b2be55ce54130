#include "weft/tests/transport/conversation.h"

#include <poll.h>

#include <algorithm>
#include <cstring>

#include "weft/base/error.h"

namespace weft::test {

void require(bool condition, const std::string& what) {
  if (!condition) throw Error(what);
}

namespace {

constexpr std::size_t tile_bytes = 4093;
constexpr std::size_t shifts = 256;

/// Where the bytes of one tile of a payload stand in the table.
const std::byte* tile_of(std::uint32_t from, std::uint32_t number, std::size_t tile) {
  static const std::vector<std::byte> table = [] {
    std::vector<std::byte> bytes(tile_bytes + shifts);
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>(i * 31 + (i >> 8) * 7 + 5);
    return bytes;
  }();
  return table.data() + (from * 17 + number * 131 + tile * 37) % shifts;
}

}  // namespace

void fill_payload(std::span<std::byte> payload, std::uint32_t from, std::uint32_t number) {
  for (std::size_t at = 0; at < payload.size(); at += tile_bytes)
    std::memcpy(payload.data() + at, tile_of(from, number, at / tile_bytes),
                std::min(tile_bytes, payload.size() - at));
}

bool is_payload(std::span<const std::byte> payload, std::uint32_t from, std::uint32_t number) {
  for (std::size_t at = 0; at < payload.size(); at += tile_bytes)
    if (std::memcmp(payload.data() + at, tile_of(from, number, at / tile_bytes),
                    std::min(tile_bytes, payload.size() - at)) != 0)
      return false;
  return true;
}

MessageHeader numbered(std::uint32_t number, std::size_t bytes) {
  MessageHeader header;
  header.dtype = DType::uint8;
  header.microbatch = number;
  header.shape = Shape{static_cast<std::uint32_t>(bytes)};
  header.payload_bytes = bytes;
  return header;
}

void sleep_until_work(Transport& transport) {
  if (transport.descriptor() < 0 || !transport.arm()) return;
  pollfd descriptor{transport.descriptor(), POLLIN, 0};
  poll(&descriptor, 1, 10);
}

Conversation::Conversation(Transport& transport, std::vector<std::size_t> sizes)
    : transport_(transport), sizes_(std::move(sizes)) {
  for (std::uint32_t number = 0; number < sizes_.size(); ++number) {
    fill_payload(outgoing_.emplace_back(sizes_[number]), transport.rank(), number);
  }
  attachment_ = transport_.attach(*this);
}

void Conversation::start() {
  for (std::uint32_t number = 0; number < sizes_.size(); ++number)
    for (std::uint32_t peer = 0; peer < transport_.world_size(); ++peer) {
      if (peer == transport_.rank()) continue;
      const SendToken token = SendToken{peer} << 32 | number;
      unsent_.insert(token);
      transport_.send(peer, numbered(number, sizes_[number]), {outgoing_[number].data(), {}}, token);
    }
}

bool Conversation::done() const {
  return unsent_.empty() && received_ == sizes_.size() * (transport_.world_size() - 1);
}

void Conversation::run() {
  start();
  drive(transport_, "messages", [this] { return done(); });
  transport_.close(now_ns() + 30'000'000'000);
  require(done(), "more messages after the last");
}

Payload Conversation::accept(std::uint32_t from, const MessageHeader& header) {
  require(header.microbatch < sizes_.size(), "a message nobody sent");
  require(header.payload_bytes == sizes_[header.microbatch], "a payload of the wrong size");
  auto [place, fresh] = landing_.try_emplace({from, header.microbatch}, header.payload_bytes);
  require(fresh, "a message that came twice");
  return {place->second.data(), {}};
}

void Conversation::delivered(std::uint32_t from, const MessageHeader& header, Payload payload) {
  const auto& landed = landing_.at({from, header.microbatch});
  require(payload.data == landed.data(), "delivered somewhere else than accepted");
  require(header.shape == numbered(header.microbatch, header.payload_bytes).shape, "a header that changed");
  if (!is_payload(landed, from, header.microbatch))
    throw Error("the payload of message " + std::to_string(header.microbatch) + " is wrong");
  order_[from].push_back(header.microbatch);
  ++received_;
}

void Conversation::sent(SendToken token) {
  require(unsent_.erase(token) == 1, "a send reported twice");
  // From now on the payload is the sender's again: it writes over it once no rank needs it any more.
  const auto number = static_cast<std::uint32_t>(token);
  for (const SendToken other : unsent_)
    if (static_cast<std::uint32_t>(other) == number) return;
  if (!outgoing_[number].empty()) std::memset(outgoing_[number].data(), 0xEE, outgoing_[number].size());
}

void Conversation::peer_failed(std::uint32_t peer, const std::string& reason) {
  throw PeerFailure(peer, reason);
}

}  // namespace weft::test
