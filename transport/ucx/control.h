#pragma once
// The transport's own messages, told from those of the actors by their length.
//
//   offset  bytes  field
//        0      4  magic "WEC1"
//        4      1  what
//        5      3  0
//        8      8  value
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft::ucx {

struct Control {
  enum class What : std::uint8_t {
    hello = 1,         ///< value: how long the sender's chunks are
    hello_heard = 2,   ///< value 0
    goodbye = 3,       ///< the sender has sent its last message; value: how many they were
    goodbye_heard = 4  ///< all of them have arrived; value 0
  };
  What what = What::hello;
  std::uint64_t value = 0;

  static constexpr std::size_t wire_bytes = 16;
};

void encode(const Control& control, std::span<std::byte, Control::wire_bytes> to) noexcept;
/// Throws TransportError when the bytes are not a control message.
[[nodiscard]] Control decode_control(std::span<const std::byte> bytes);

}  // namespace weft::ucx
