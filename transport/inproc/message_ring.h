#pragma once
// The messages on their way from one rank's thread to another's, and the bell that wakes a sleeping thread.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/files/descriptor.h"
#include "weft/transport/transport.h"

namespace weft {

/// A lock-free ring with one sender and one receiver. A slot is used again only after the sender has seen
/// that it was consumed, so tokens are read back from the slots themselves.
class MessageRing {
 public:
  static constexpr std::uint64_t capacity = 64;

  struct Message {
    MessageHeader header;
    ConstPayload payload;
    SendToken token = 0;
  };

  [[nodiscard]] Message& slot(std::uint64_t number) noexcept { return slots_[number % capacity]; }

  // The counters are sequentially consistent because a thread that goes to sleep and one that writes must
  // not miss each other: see Doorbell.
  void publish(std::uint64_t written) noexcept { written_.store(written); }
  [[nodiscard]] std::uint64_t written() const noexcept { return written_.load(); }
  void consume(std::uint64_t consumed) noexcept { consumed_.store(consumed); }
  [[nodiscard]] std::uint64_t consumed() const noexcept { return consumed_.load(); }

  /// The receiver may read payloads of the sender until end_reading(); false once the sender has left.
  [[nodiscard]] bool begin_reading() noexcept {
    auto expected = State::idle;
    return state_.compare_exchange_strong(expected, State::reading);
  }
  void end_reading() noexcept { state_.store(State::idle); }
  [[nodiscard]] bool retracted() const noexcept { return state_.load() == State::retracted; }
  /// The sender leaves: returns when the receiver does not read and never will again.
  void retract() noexcept;

 private:
  enum class State : std::uint8_t { idle, reading, retracted };

  alignas(64) std::atomic<std::uint64_t> written_{0};
  alignas(64) std::atomic<std::uint64_t> consumed_{0};
  alignas(64) std::atomic<State> state_{State::idle};
  std::array<Message, capacity> slots_;
};

/// Wakes one thread. It says that it will sleep and then looks for work once more; others make work and then
/// look whether it sleeps; in one total order at least one of the two sees the other.
class Doorbell {
 public:
  /// Throws Error when the system has no descriptor left.
  Doorbell();

  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  /// The owner will sleep; false when it has been rung since the last call.
  [[nodiscard]] bool begin_sleep() noexcept;
  void end_sleep() noexcept { asleep_.store(false, std::memory_order_relaxed); }
  [[nodiscard]] bool asleep() const noexcept { return asleep_.load(std::memory_order_relaxed); }
  /// There is work: wakes the owner if it sleeps.
  void ring() noexcept {
    if (asleep_.load() && asleep_.exchange(false)) ring_always();
  }
  void ring_always() noexcept;

 private:
  alignas(64) std::atomic<bool> asleep_{false};
  Descriptor descriptor_;
};

}  // namespace weft
