#pragma once
// The header that travels before every payload: 64 bytes, little-endian, no padding.
//
//   offset  bytes  field
//        0      4  magic "WEF1"
//        4      1  version (1)
//        5      1  kind
//        6      1  phase (0 train, 1 evaluate)
//        7      1  dtype of the payload
//        8      4  step
//       12      2  group of a collective (0 in other kinds)
//       14      1  tensor number within the border
//       15      1  number of dims
//       16      2  source stage
//       18      2  target stage
//       20      4  micro-batch (or the number of a tie, or the tag of a collective)
//       24      4  chunk number
//       28      4  sequence number of the message on its connection
//       32      8  payload bytes of the whole message
//       40     24  six dims, 4 bytes each, unused ones 0
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/phase.h"
#include "weft/tensor/shape.h"

namespace weft {

enum class MessageKind : std::uint8_t {
  activation = 1,     ///< output of a stage, for F of the next one
  gradient = 2,       ///< gradient of a stage's input, for I or B of the one before
  credit = 3,         ///< a receive buffer of that edge is free again; no payload
  tied_gradient = 4,  ///< gradient of one use of a tied weight
  tied_sum = 5,       ///< the sum of all uses, on its way back
  collective = 6,     ///< one rank's part of a gather, or the result of a broadcast
};

/// One message, or one chunk of it.
struct MessageHeader {
  MessageKind kind = MessageKind::activation;
  Phase phase = Phase::train;
  DType dtype = DType::none;
  std::uint8_t tensor = 0;
  std::uint32_t step = 0;
  std::uint16_t group = 0;
  std::uint16_t source_stage = 0;
  std::uint16_t target_stage = 0;
  std::uint32_t microbatch = 0;
  std::uint32_t chunk = 0;
  std::uint32_t sequence = 0;
  std::uint64_t payload_bytes = 0;
  Shape shape;

  static constexpr std::size_t wire_bytes = 64;
};

/// Writes the 64 bytes.
void encode(const MessageHeader& header, std::span<std::byte, MessageHeader::wire_bytes> to) noexcept;

/// Reads 64 bytes that come from outside. Throws TransportError naming the field that is wrong: magic,
/// version, kind, phase, dtype, number of dims, an unused dim that is not 0, or a shape whose bytes are not
/// `payload_bytes` (for kinds that carry a tensor).
[[nodiscard]] MessageHeader decode(std::span<const std::byte> bytes);

}  // namespace weft
