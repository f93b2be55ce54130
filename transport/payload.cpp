#include "weft/transport/payload.h"

#include <string>

#include "weft/base/error.h"

namespace weft {

void require_cpu(std::string_view transport, Device device) {
  if (device.kind == DeviceKind::cpu) return;
  throw TransportError("a payload lies on cuda:" + std::to_string(device.index) + ", and " +
                       std::string(transport) + " moves CPU memory only");
}

}  // namespace weft
