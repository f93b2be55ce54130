#include "weft/transport/ucx/control.h"

#include <algorithm>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"

namespace weft::ucx {
namespace {

constexpr std::uint32_t control_magic = 0x31434557;  // "WEC1"

}

void encode(const Control& control, std::span<std::byte, Control::wire_bytes> to) noexcept {
  std::fill(to.begin(), to.end(), std::byte{0});
  store_le(to.data(), control_magic);
  store_le(to.data() + 4, control.what);
  store_le(to.data() + 8, control.value);
}

Control decode_control(std::span<const std::byte> bytes) {
  if (bytes.size() != Control::wire_bytes || load_le<std::uint32_t>(bytes.data()) != control_magic)
    throw TransportError("a message of " + std::to_string(bytes.size()) + " bytes that is no header");
  const auto what = load_le<std::uint8_t>(bytes.data() + 4);
  if (what < 1 || what > 4) throw TransportError("control message: wrong kind " + std::to_string(what));
  return {static_cast<Control::What>(what), load_le<std::uint64_t>(bytes.data() + 8)};
}

}  // namespace weft::ucx
