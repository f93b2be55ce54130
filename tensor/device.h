#pragma once
// Where memory lies.
#include <cstdint>

namespace weft {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// The CPU, or one CUDA device by its number.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::uint16_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

}  // namespace weft
