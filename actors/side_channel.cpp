#include "weft/actors/side_channel.h"

#include <fmt/core.h>

#include <algorithm>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr SendToken tied_token = SideChannel::first_token;  // only counted; those of copies follow

}  // namespace

struct SideChannel::Expected {
  Payload into;
  std::size_t bytes = 0;
  std::uint32_t from = 0;
  std::uint32_t arrived = 0;
  bool ended = false;  // the expectation has gone
};

void SideChannel::Expectation::end() noexcept {
  if (expected_) expected_->ended = true;
  expected_.reset();
}

SideChannel::Expectation& SideChannel::Expectation::operator=(Expectation&& other) noexcept {
  if (this == &other) return *this;
  end();
  expected_ = std::move(other.expected_);
  return *this;
}

SideChannel::SideChannel(EventLoop& loop, Transport& transport)
    : loop_(loop), transport_(transport), parts_(transport.world_size()) {}

SideChannel::Expectation SideChannel::expect(MessageKind kind, std::uint32_t tie, std::uint32_t from,
                                             Payload into, std::size_t bytes) {
  auto& row = ties(kind);
  if (row.size() <= tie) row.resize(tie + 1u);
  if (row[tie] && !row[tie]->ended) throw Error(fmt::format("tie {} is expected twice", tie));
  row[tie] = std::make_shared<Expected>();
  row[tie]->into = into;
  row[tie]->bytes = bytes;
  row[tie]->from = from;
  return Expectation(row[tie]);
}

Task<void> SideChannel::receive(const Expectation& expectation) {
  const std::shared_ptr<Expected> expected = expectation.expected_;
  while (expected->arrived == 0) co_await loop_.next(INT64_MAX);
  --expected->arrived;
}

void SideChannel::send_tied(std::uint32_t to, MessageKind kind, std::uint32_t tie, ConstPayload floats,
                            std::size_t count) {
  MessageHeader header;
  header.kind = kind;
  header.dtype = DType::float32;
  header.microbatch = tie;
  header.shape = Shape{static_cast<std::uint32_t>(count)};
  header.payload_bytes = count * sizeof(float);
  transport_.send(to, header, floats, tied_token);
  ++tied_sends_;
}

Task<void> SideChannel::sent_all() {
  while (tied_sends_ > 0) co_await loop_.next(INT64_MAX);
}

void SideChannel::send_part(std::uint32_t to, std::uint16_t group, std::uint32_t tag,
                            std::span<const std::byte> bytes) {
  if (bytes.size() > largest_part)
    throw TransportError(fmt::format("{} bytes at once in a collective", bytes.size()));
  if (free_copies_.empty()) {
    copies_.emplace_back();
    free_copies_.reserve(copies_.size());  // sent() gives it back without an allocation
    free_copies_.push_back(static_cast<std::uint32_t>(copies_.size() - 1));
  }
  const std::uint32_t number = free_copies_.back();
  std::vector<std::byte>& copy = copies_[number];
  copy.assign(bytes.begin(), bytes.end());
  free_copies_.pop_back();
  MessageHeader header;
  header.kind = MessageKind::collective;
  header.dtype = DType::uint8;
  header.group = group;
  header.microbatch = tag;
  header.shape = Shape{static_cast<std::uint32_t>(bytes.size())};
  header.payload_bytes = bytes.size();
  transport_.send(to, header, {copy.data(), {}}, first_token + 1 + number);
}

Task<void> SideChannel::receive_part(std::uint16_t group, std::uint32_t from, std::uint32_t tag,
                                     std::vector<std::byte>& into) {
  for (;;) {
    for (Part& part : parts_.at(from)) {
      if (!part.complete || part.group != group || part.tag != tag) continue;
      into.insert(into.end(), part.bytes.begin(), part.bytes.end());
      part.used = part.complete = false;
      co_return;
    }
    co_await loop_.next(INT64_MAX);
  }
}

Payload SideChannel::accept(std::uint32_t from, const MessageHeader& header) {
  if (header.kind == MessageKind::collective) {
    if (header.payload_bytes > largest_part)
      throw TransportError(fmt::format("rank {} sends {} bytes at once", from, header.payload_bytes));
    auto& parts = parts_.at(from);
    auto part = std::find_if(parts.begin(), parts.end(), [](const Part& p) { return !p.used; });
    if (part == parts.end()) part = parts.insert(parts.end(), Part{});
    part->group = header.group;
    part->tag = header.microbatch;
    part->used = true;
    part->complete = false;
    part->bytes.resize(header.payload_bytes);
    return {part->bytes.data(), {}};
  }
  const auto& row = ties(header.kind);
  const std::uint32_t tie = header.microbatch;
  if (tie >= row.size() || !row[tie] || row[tie]->ended || row[tie]->from != from ||
      row[tie]->bytes != header.payload_bytes)
    throw TransportError(fmt::format("rank {} sends a gradient of {} bytes for tie {}, which nobody expects",
                                     from, header.payload_bytes, tie));
  return row[tie]->into;
}

void SideChannel::delivered(std::uint32_t from, const MessageHeader& header, Payload payload) {
  if (header.kind != MessageKind::collective) {
    ++ties(header.kind)[header.microbatch]->arrived;
    return;
  }
  for (Part& part : parts_.at(from))
    if (part.used && !part.complete && part.group == header.group && part.tag == header.microbatch &&
        part.bytes.data() == payload.data) {
      part.complete = true;
      return;
    }
}

void SideChannel::sent(SendToken token) noexcept {
  if (token == tied_token)
    --tied_sends_;
  else
    free_copies_.push_back(static_cast<std::uint32_t>(token - first_token - 1));
}

}  // namespace weft
