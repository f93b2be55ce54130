#pragma once
// How long a rank needs for what must not be broken off: the launcher's patience with it.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "weft/base/clock.h"

namespace weft {

/// The longest so far.
struct Pace {
  std::chrono::milliseconds step{0};
  std::chrono::milliseconds save{0};

  friend bool operator==(const Pace&, const Pace&) = default;
};

/// Where the actor thread notes steps and saves, which any thread may read. Times as of now_ns().
class PaceMeter {
 public:
  /// A save under way counts with its time so far, but no longer than this: it may have got stuck.
  static constexpr std::chrono::minutes longest_open_save{10};

  void begin_step(Nanoseconds now) noexcept { step_began_ = now; }
  void end_step(Nanoseconds now) noexcept { grow(longest_step_, now - step_began_); }
  void begin_save(Nanoseconds now) noexcept { save_began_.store(now, std::memory_order_relaxed); }
  void end_save(Nanoseconds now) noexcept {
    grow(longest_save_, now - save_began_.load(std::memory_order_relaxed));
    save_began_.store(none, std::memory_order_relaxed);
  }

  [[nodiscard]] Pace read(Nanoseconds now) const noexcept {
    using std::chrono::milliseconds;
    using std::chrono::nanoseconds;
    Nanoseconds save = longest_save_.load(std::memory_order_relaxed);
    if (const Nanoseconds began = save_began_.load(std::memory_order_relaxed); began != none)
      save = std::max(save, std::min(now - began, nanoseconds(longest_open_save).count()));
    return {std::chrono::ceil<milliseconds>(nanoseconds(longest_step_.load(std::memory_order_relaxed))),
            std::chrono::ceil<milliseconds>(nanoseconds(save))};
  }

 private:
  static constexpr Nanoseconds none = INT64_MIN;

  static void grow(std::atomic<Nanoseconds>& longest, Nanoseconds time) noexcept {
    longest.store(std::max(longest.load(std::memory_order_relaxed), time), std::memory_order_relaxed);
  }

  Nanoseconds step_began_ = 0;  // of the actor thread alone
  std::atomic<Nanoseconds> longest_step_{0};
  std::atomic<Nanoseconds> longest_save_{0};
  std::atomic<Nanoseconds> save_began_{none};
};

}  // namespace weft
