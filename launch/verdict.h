#pragma once
// Which of several bad news was the first cause. When a rank is killed, its neighbours may complain before
// its parent has heard of it; so complaints wait a moment for something better.
#include <chrono>
#include <cstdint>
#include <optional>

#include "weft/transport/rendezvous/control_client.h"

namespace weft {

class Verdict {
 public:
  using Time = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::milliseconds patience{200};

  /// A cause for certain: a rank's own words, the way its process ended, a broken rule.
  void convict(const Failure& cause);
  /// A sign that something is wrong, most likely elsewhere: believed when nothing better comes within
  /// patience.
  void suspect(const Failure& sign, Time now);

  /// The first cause, once it stands.
  [[nodiscard]] std::optional<Failure> cause(Time now) const;
  /// When `cause` should be asked again; none when only news can change it.
  [[nodiscard]] std::optional<Time> deadline() const;

 private:
  std::optional<Failure> convicted_;
  std::optional<Failure> suspected_;
  Time patience_ends_;
};

}  // namespace weft
