#pragma once
// Where the payload of a message lies: said by whoever owns the memory, never guessed from a pointer.
#include <cstddef>
#include <string_view>

#include "weft/tensor/device.h"

namespace weft {

/// Memory that a payload shall be put into. Its size stands in the message's header; `data` may be null where
/// that is 0.
struct Payload {
  std::byte* data = nullptr;
  Device device;
};

/// Memory that a payload is read from.
struct ConstPayload {
  const std::byte* data = nullptr;
  Device device;
};

/// For transports that move CPU memory only. Throws TransportError, naming `transport` and the device, for
/// any other.
void require_cpu(std::string_view transport, Device device);

}  // namespace weft
