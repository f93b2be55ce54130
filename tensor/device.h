#pragma once
// Where memory lies.
#include <cstdint>
#include <string>

namespace weft {

enum class DeviceKind : std::uint8_t { cpu, cuda };

/// The CPU, or one CUDA device by its number.
struct Device {
  DeviceKind kind = DeviceKind::cpu;
  std::uint16_t index = 0;
  friend bool operator==(const Device&, const Device&) = default;
};

/// The name users read, `cpu` or `cuda:0`.
[[nodiscard]] inline std::string device_name(Device device) {
  return device.kind == DeviceKind::cpu ? "cpu" : "cuda:" + std::to_string(device.index);
}

}  // namespace weft
