// libFuzzer: whatever 64 bytes arrive, decode() takes them as they are or throws TransportError.
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "weft/base/error.h"
#include "weft/transport/message.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span bytes(reinterpret_cast<const std::byte*>(data), size);
  try {
    const weft::MessageHeader header = weft::decode(bytes);
    std::array<std::byte, weft::MessageHeader::wire_bytes> again{};
    weft::encode(header, again);
    if (std::memcmp(again.data(), data, again.size()) != 0) std::abort();
    static_cast<void>(header.shape.elements());
  } catch (const weft::TransportError&) {
  }
  return 0;
}
