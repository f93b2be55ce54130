#include "weft/transport/message.h"

#include <string>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::uint32_t header_magic = 0x31464557;  // "WEF1"
constexpr std::uint8_t version = 1;

[[noreturn]] void refuse(const char* field, std::uint64_t value) {
  throw TransportError(std::string("message header: wrong ") + field + " " + std::to_string(value));
}

}  // namespace

void encode(const MessageHeader& header, std::span<std::byte, MessageHeader::wire_bytes> to) noexcept {
  std::byte* p = to.data();
  store_le(p, header_magic);
  store_le(p + 4, version);
  store_le(p + 5, header.kind);
  store_le(p + 6, header.phase);
  store_le(p + 7, header.dtype);
  store_le(p + 8, header.step);
  store_le(p + 12, header.group);
  store_le(p + 14, header.tensor);
  store_le(p + 15, static_cast<std::uint8_t>(header.shape.rank()));
  store_le(p + 16, header.source_stage);
  store_le(p + 18, header.target_stage);
  store_le(p + 20, header.microbatch);
  store_le(p + 24, header.chunk);
  store_le(p + 28, header.sequence);
  store_le(p + 32, header.payload_bytes);
  for (std::size_t i = 0; i < Shape::max_dims; ++i)
    store_le(p + 40 + 4 * i, i < header.shape.rank() ? header.shape[i] : std::uint32_t{0});
}

MessageHeader decode(std::span<const std::byte> bytes) {
  if (bytes.size() != MessageHeader::wire_bytes) refuse("length", bytes.size());
  const std::byte* p = bytes.data();
  if (load_le<std::uint32_t>(p) != header_magic) refuse("magic", load_le<std::uint32_t>(p));
  if (load_le<std::uint8_t>(p + 4) != version) refuse("version", load_le<std::uint8_t>(p + 4));
  const auto kind = load_le<std::uint8_t>(p + 5);
  const auto phase = load_le<std::uint8_t>(p + 6);
  const auto dtype = load_le<std::uint8_t>(p + 7);
  const auto dims = load_le<std::uint8_t>(p + 15);
  if (kind < 1 || kind > 6) refuse("kind", kind);
  if (phase > 1) refuse("phase", phase);
  if (dtype != 0 && dtype_size(static_cast<DType>(dtype)) == 0) refuse("dtype", dtype);
  if (dims > Shape::max_dims) refuse("number of dims", dims);

  MessageHeader header;
  header.kind = static_cast<MessageKind>(kind);
  header.phase = static_cast<Phase>(phase);
  header.dtype = static_cast<DType>(dtype);
  header.tensor = load_le<std::uint8_t>(p + 14);
  header.step = load_le<std::uint32_t>(p + 8);
  header.group = load_le<std::uint16_t>(p + 12);
  header.source_stage = load_le<std::uint16_t>(p + 16);
  header.target_stage = load_le<std::uint16_t>(p + 18);
  header.microbatch = load_le<std::uint32_t>(p + 20);
  header.chunk = load_le<std::uint32_t>(p + 24);
  header.sequence = load_le<std::uint32_t>(p + 28);
  header.payload_bytes = load_le<std::uint64_t>(p + 32);
  std::array<std::uint32_t, Shape::max_dims> shape{};
  for (std::size_t i = 0; i < dims; ++i) shape[i] = load_le<std::uint32_t>(p + 40 + 4 * i);
  for (std::size_t i = dims; i < Shape::max_dims; ++i)
    if (load_le<std::uint32_t>(p + 40 + 4 * i) != 0)
      refuse("unused dims", load_le<std::uint32_t>(p + 40 + 4 * i));
  header.shape = Shape(std::span<const std::uint32_t>(shape.data(), dims));

  std::uint64_t elements = 1;
  for (const std::uint32_t dim : header.shape.dims())
    if (__builtin_mul_overflow(elements, std::uint64_t{dim}, &elements) || elements >> 59 != 0)
      refuse("shape, too large at dim", dim);
  const std::uint64_t expected =
      header.kind == MessageKind::credit ? 0 : elements * dtype_size(header.dtype);  // below 2^63
  if (header.payload_bytes != expected) refuse("payload size", header.payload_bytes);
  return header;
}

}  // namespace weft
