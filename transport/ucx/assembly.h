#pragma once
// Puts the chunks of one sender's messages together in the sink's memory. Knows nothing of UCX; everything it
// is given comes from outside.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "weft/transport/transport.h"

namespace weft::ucx {

/// A message that has begun to arrive, or has arrived.
struct Arrival {
  std::uint32_t from = 0;
  MessageHeader header;
  Payload payload;
};

class Assembly {
 public:
  explicit Assembly(std::uint32_t from) noexcept : from_(from) {}

  /// How long the sender's chunks are; said once, before its first message. Throws TransportError when said
  /// again or not between 1 KiB and 1 MiB.
  void set_chunk_bytes(std::uint64_t bytes);

  /// Files one chunk or a whole message, copying `data` to where `sink` wants the payload. True when a
  /// message is complete; it is then in `arrival`. Throws TransportError for a header that is malformed, a
  /// chunk that is not the one its header says, a message that came before, or one whose place is not CPU
  /// memory; and what the sink throws.
  bool add(MessageSink& sink, std::span<const std::byte> header, std::span<const std::byte> data,
           Arrival& arrival);

  /// Begins a whole message whose `bytes` the caller will put at Arrival::payload. Throws as add() does.
  [[nodiscard]] Arrival begin_whole(MessageSink& sink, std::span<const std::byte> header,
                                    std::uint64_t bytes);

  /// Some chunks of a message have come, and others have not.
  [[nodiscard]] bool unfinished() const noexcept {
    return std::any_of(partials_.begin(), partials_.end(), [](const Partial& p) { return p.used; });
  }

  /// Messages that are complete; those of begin_whole() count from their beginning.
  [[nodiscard]] std::uint64_t complete() const noexcept { return complete_; }

 private:
  /// A message of which some chunks have come. Chunks are normally sent and received in order, one message
  /// after the other, but UCX promises no order.
  struct Partial {
    bool used = false;
    Arrival arrival;
    std::uint64_t missing = 0;        // chunks
    std::vector<std::uint64_t> have;  // one bit a chunk
  };

  Partial& partial_of(MessageSink& sink, const MessageHeader& header, std::uint64_t chunks);
  void begin(std::uint32_t sequence);

  std::uint32_t from_;
  std::uint64_t chunk_bytes_ = 0;
  std::uint64_t complete_ = 0;
  std::uint32_t oldest_unseen_ = 0;  // sequence number
  std::uint64_t seen_after_ = 0;     // bit i: oldest_unseen_ + i has begun
  std::array<Partial, 16> partials_;
};

}  // namespace weft::ucx
