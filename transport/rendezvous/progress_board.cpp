#include "weft/transport/rendezvous/progress_board.h"

#include <algorithm>
#include <cstring>
#include <thread>

namespace weft::control {

void ProgressBoard::set(Activity activity, std::uint64_t count, std::string_view doing) noexcept {
  std::array<std::uint64_t, word_count> text{};
  doing.substr(0, doing_bytes - 1).copy(reinterpret_cast<char*>(text.data()), doing_bytes - 1);
  const std::uint64_t version = version_.load(std::memory_order_relaxed);
  version_.store(version + 1, std::memory_order_relaxed);
  // release: whoever sees one of these values sees the odd version as well
  activity_.store(static_cast<std::uint32_t>(activity), std::memory_order_release);
  count_.store(count, std::memory_order_release);
  for (std::size_t i = 0; i < word_count; ++i) doing_[i].store(text[i], std::memory_order_release);
  version_.store(version + 2, std::memory_order_release);
  tick();
}

void ProgressBoard::set_outside() noexcept {
  set(Activity::outside, count_.load(std::memory_order_relaxed), {});
}

ProgressBoard::Reading ProgressBoard::read() const {
  Reading reading;
  std::array<std::uint64_t, word_count> text{};
  std::uint64_t before = 0;
  std::uint64_t after = 1;
  for (int attempt = 1; before != after || before % 2 == 1; ++attempt) {
    if (attempt % 64 == 0) std::this_thread::yield();  // the writer may have lost its core in the middle
    before = version_.load(std::memory_order_acquire);
    reading.activity = static_cast<Activity>(activity_.load(std::memory_order_acquire));
    reading.count = count_.load(std::memory_order_acquire);
    for (std::size_t i = 0; i < word_count; ++i) text[i] = doing_[i].load(std::memory_order_acquire);
    after = version_.load(std::memory_order_relaxed);
  }
  reading.ticks = ticks_.load(std::memory_order_relaxed);
  const char* characters = reinterpret_cast<const char*>(text.data());
  reading.doing.assign(characters, strnlen(characters, doing_bytes));
  return reading;
}

}  // namespace weft::control
