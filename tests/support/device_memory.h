#pragma once
// A device for tests whose memory the host cannot use: it lies where only the queue looks.
#include <cstdint>
#include <cstring>
#include <vector>

#include "weft/tensor/queue.h"

namespace weft::test {

/// Memory of the device is a number range; what is in it, the queue alone knows.
class DeviceMemoryQueue final : public Queue {
 public:
  explicit DeviceMemoryQueue(std::size_t bytes) : memory_(bytes) {}
  /// An address of the device: not one that can be read.
  [[nodiscard]] static std::byte* address(std::size_t offset) {
    return reinterpret_cast<std::byte*>(std::uintptr_t{base} + offset);
  }
  std::vector<std::byte>& memory() { return memory_; }
  std::size_t waits = 0;  ///< events asked for

  Device device() const noexcept override { return {DeviceKind::cuda, 0}; }
  void upload(std::byte* to, std::span<const std::byte> host) override {
    std::memcpy(inside(to), host.data(), host.size());
  }
  void download(std::byte* host, const std::byte* from, std::size_t bytes) override {
    std::memcpy(host, inside(from), bytes);
  }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    std::memcpy(inside(to), inside(from), bytes);
  }
  void fill(std::byte* to, std::uint8_t value, std::size_t bytes) override {
    std::memset(inside(to), value, bytes);
  }
  void add(float*, const float*, std::size_t) override {}
  void squares(std::span<const std::span<const float>>, double*) override {}
  Event record() override { return event(++waits); }
  void wait(const Event&) override {}
  void* native() noexcept override { return nullptr; }

 private:
  static constexpr std::uintptr_t base = 4096;  // never mapped
  bool reached(std::uint64_t) const override { return true; }
  std::byte* inside(const std::byte* address) {
    return memory_.data() + (reinterpret_cast<std::uintptr_t>(address) - base);
  }
  std::vector<std::byte> memory_;
};

}  // namespace weft::test
