#include "weft/transport/ucx/assembly.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "weft/base/error.h"

namespace weft::ucx {
namespace {

[[noreturn]] void refuse(std::uint32_t from, const std::string& what) {
  throw TransportError("a message from rank " + std::to_string(from) + " is refused: " + what);
}

/// Data that lies in CPU memory can be copied into CPU memory only.
std::byte* writable(const Arrival& arrival) {
  if (arrival.payload.device.kind != DeviceKind::cpu)
    refuse(arrival.from, "it came through CPU memory, and its place is on a device");
  return arrival.payload.data;
}

}  // namespace

void Assembly::set_chunk_bytes(std::uint64_t bytes) {
  if (chunk_bytes_ != 0) refuse(from_, "it says its chunk size twice");
  if (bytes < 1024 || bytes > 1024 * 1024) refuse(from_, "chunks of " + std::to_string(bytes) + " bytes");
  chunk_bytes_ = bytes;
}

void Assembly::begin(std::uint32_t sequence) {
  const std::uint32_t ahead = sequence - oldest_unseen_;
  if (ahead >= 64 || (seen_after_ >> ahead & 1) != 0)
    refuse(from_, "sequence number " + std::to_string(sequence) + " where " + std::to_string(oldest_unseen_) +
                      " is due");
  seen_after_ |= std::uint64_t{1} << ahead;
  const int begun = std::countr_one(seen_after_);
  seen_after_ = begun == 64 ? 0 : seen_after_ >> begun;
  oldest_unseen_ += static_cast<std::uint32_t>(begun);
}

bool Assembly::add(MessageSink& sink, std::span<const std::byte> header_bytes,
                   std::span<const std::byte> data, Arrival& arrival) {
  const MessageHeader header = decode(header_bytes);
  if (data.size() == header.payload_bytes) {
    if (header.chunk != 0) refuse(from_, "a whole payload as chunk " + std::to_string(header.chunk));
    begin(header.sequence);
    arrival = {from_, header, sink.accept(from_, header)};
    if (!data.empty()) std::memcpy(writable(arrival), data.data(), data.size());
    ++complete_;
    return true;
  }
  if (chunk_bytes_ == 0) refuse(from_, "a chunk before the size of chunks");
  const std::uint64_t chunks = (header.payload_bytes - 1) / chunk_bytes_ + 1;
  const std::uint64_t offset = header.chunk * chunk_bytes_;
  if (header.payload_bytes == 0 || header.chunk >= chunks ||
      data.size() != std::min(chunk_bytes_, header.payload_bytes - offset))
    refuse(from_, "chunk " + std::to_string(header.chunk) + " with " + std::to_string(data.size()) + " of " +
                      std::to_string(header.payload_bytes) + " bytes");

  Partial& partial = partial_of(sink, header, chunks);
  std::uint64_t& word = partial.have[header.chunk / 64];
  const std::uint64_t bit = std::uint64_t{1} << header.chunk % 64;
  if ((word & bit) != 0) refuse(from_, "chunk " + std::to_string(header.chunk) + " twice");
  word |= bit;
  std::memcpy(writable(partial.arrival) + offset, data.data(), data.size());
  if (--partial.missing != 0) return false;
  partial.used = false;
  arrival = partial.arrival;
  ++complete_;
  return true;
}

Assembly::Partial& Assembly::partial_of(MessageSink& sink, const MessageHeader& header,
                                        std::uint64_t chunks) {
  const auto known = std::find_if(partials_.begin(), partials_.end(), [&](const Partial& partial) {
    return partial.used && partial.arrival.header.sequence == header.sequence;
  });
  if (known != partials_.end()) {
    if (known->arrival.header.payload_bytes != header.payload_bytes)
      refuse(from_, "its chunks disagree about the size");
    return *known;
  }
  const auto free =
      std::find_if(partials_.begin(), partials_.end(), [](const Partial& p) { return !p.used; });
  if (free == partials_.end()) refuse(from_, "too many unfinished messages");
  begin(header.sequence);
  free->arrival = {from_, header, sink.accept(from_, header)};
  free->arrival.header.chunk = 0;
  free->missing = chunks;
  free->have.assign((chunks + 63) / 64, 0);  // the sink has taken a payload of this size
  free->used = true;
  return *free;
}

Arrival Assembly::begin_whole(MessageSink& sink, std::span<const std::byte> header_bytes,
                              std::uint64_t bytes) {
  const MessageHeader header = decode(header_bytes);
  if (bytes != header.payload_bytes || header.chunk != 0)
    refuse(from_, std::to_string(bytes) + " of " + std::to_string(header.payload_bytes) + " bytes");
  begin(header.sequence);
  const Arrival arrival{from_, header, sink.accept(from_, header)};
  ++complete_;
  return arrival;
}

}  // namespace weft::ucx
