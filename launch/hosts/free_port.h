#pragma once
// A port for programs that bring a rendezvous of their own.
#include <cstdint>

namespace weft {

/// A port of the loopback device that nothing listens on at the moment. Throws Error when there is none.
[[nodiscard]] std::uint16_t find_free_port();

}  // namespace weft
