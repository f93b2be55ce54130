#pragma once
#include "weft/tensor/queue.h"

namespace weft {

/// The queue of the CPU: a call returns when its work is done, so every event of it is past.
class CpuQueue final : public Queue {
 public:
  [[nodiscard]] Device device() const noexcept override { return {}; }
  void upload(std::byte* to, std::span<const std::byte> host) override;
  void download(std::byte* host, const std::byte* from, std::size_t bytes) override;
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override;
  void fill(std::byte* to, std::uint8_t value, std::size_t bytes) override;
  void add(float* sum, const float* summand, std::size_t n) override;
  void squares(std::span<const std::span<const float>> ranges, double* sums) override;
  [[nodiscard]] Event record() override { return {}; }
  /// Returns once `event` is past: this thread is the queue.
  void wait(const Event& event) override;
  [[nodiscard]] void* native() noexcept override { return nullptr; }

 private:
  [[nodiscard]] bool reached(std::uint64_t) const override { return true; }
};

}  // namespace weft
