#pragma once
// Where the actor thread writes what it is doing and the control thread reads it. Internal to this folder.
#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/transport/rendezvous/wire.h"

namespace weft::control {

/// One writer, any number of readers; neither ever waits for the other. (A sequence lock made of atomics
/// only.)
class ProgressBoard {
 public:
  struct Reading {
    Activity activity = Activity::outside;
    std::uint64_t count = 0;
    std::uint64_t ticks = 0;
    std::string doing;
  };

  void set(Activity activity, std::uint64_t count, std::string_view doing) noexcept;
  /// Keeps the count.
  void set_outside() noexcept;
  void tick() noexcept {
    ticks_.store(ticks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  [[nodiscard]] Reading read() const;

 private:
  static constexpr std::size_t word_count = doing_bytes / 8;

  std::atomic<std::uint64_t> ticks_{0};
  std::atomic<std::uint64_t> version_{0};  // odd while the writer is at it
  std::atomic<std::uint32_t> activity_{0};
  std::atomic<std::uint64_t> count_{0};
  std::array<std::atomic<std::uint64_t>, word_count> doing_{};  // text, ended by zeros
};

}  // namespace weft::control
