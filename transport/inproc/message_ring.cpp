#include "weft/transport/inproc/message_ring.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>

#include "weft/base/error.h"

namespace weft {

void MessageRing::retract() noexcept {
  for (;;) {
    auto expected = State::idle;
    if (state_.compare_exchange_weak(expected, State::retracted) || expected == State::retracted) return;
    std::this_thread::yield();  // the receiver copies a payload: a matter of microseconds
  }
}

Doorbell::Doorbell() : descriptor_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (!descriptor_) throw Error(std::string("no descriptor for a rank's wake-ups: ") + std::strerror(errno));
}

bool Doorbell::begin_sleep() noexcept {
  std::uint64_t rings = 0;
  if (read(descriptor_.number(), &rings, sizeof(rings)) > 0) return false;
  asleep_.store(true);
  return true;
}

void Doorbell::ring_always() noexcept {
  const std::uint64_t one = 1;
  // It fails only when the counter is full, and then the descriptor is readable already.
  [[maybe_unused]] const auto written = write(descriptor_.number(), &one, sizeof(one));
}

}  // namespace weft
