#pragma once
// What the launcher knows about every rank, and what it concludes from that. Internal to this folder; no
// sockets, and the time is a parameter, so that every rule can be tested alone.
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/transport/rendezvous/control_client.h"
#include "weft/transport/rendezvous/wire.h"

namespace weft::control {

using Time = std::chrono::steady_clock::time_point;

/// A rank's heartbeat.
struct Heartbeat {
  Activity activity = Activity::outside;
  std::uint64_t count = 0;
  std::uint64_t ticks = 0;
  std::string doing;
};

class Roll {
 public:
  explicit Roll(std::uint32_t world_size) : ranks_(world_size) {}

  /// Why a rank may not join, or nothing: number out of range or taken, other world size, other facts than
  /// those that joined before.
  [[nodiscard]] std::optional<std::string> objection(std::uint32_t rank, std::uint32_t world_size,
                                                     const std::vector<CommonFact>& facts) const;
  void join(std::uint32_t rank, const std::vector<CommonFact>& facts, Time now);
  void beat(std::uint32_t rank, const Heartbeat& heartbeat, Time now);
  void finish(std::uint32_t rank) { ranks_[rank].state = State::done; }
  void leave(std::uint32_t rank) { ranks_[rank].connected = false; }

  /// Takes a rank's part of its current exchange. Throws TransportError when it gave one already.
  void give(std::uint32_t rank, std::uint64_t round, Bytes part, Time now);
  [[nodiscard]] bool exchange_complete() const;
  struct Part {
    std::uint64_t round;
    Bytes bytes;
  };
  /// Everyone's parts, by rank; the exchange is over. Only when complete.
  [[nodiscard]] std::vector<Part> take_exchange();

  [[nodiscard]] bool active(std::uint32_t rank) const { return ranks_[rank].state == State::joined; }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(ranks_.size()); }

  /// The first rule that is broken at `now`: a rank silent or not ticking for `limit`, all ranks waiting so
  /// long without an op done, or ranks missing `join_limit` after the first arrival.
  [[nodiscard]] std::optional<Failure> judge(Time now, std::chrono::milliseconds limit,
                                             std::chrono::milliseconds join_limit) const;
  /// Forgets how long everything has lasted: the launcher itself was stopped meanwhile.
  void forgive(Time now);

 private:
  enum class State { absent, joined, done };
  struct Rank {
    State state = State::absent;
    bool connected = false;
    std::vector<CommonFact> facts;
    Heartbeat last;
    Time heard;   ///< of the last heartbeat
    Time ticked;  ///< when the ticks last changed
    Time moved;   ///< when count or activity last changed
    std::optional<Part> part;
  };

  [[nodiscard]] std::string position(std::uint32_t rank) const;
  [[nodiscard]] std::optional<Failure> missing(Time now, std::chrono::milliseconds join_limit) const;
  [[nodiscard]] std::optional<Failure> deadlock(Time now, std::chrono::milliseconds limit) const;

  std::vector<Rank> ranks_;
  std::optional<Time> first_arrival_;
};

/// "10 s", "300 ms".
[[nodiscard]] std::string spell(std::chrono::milliseconds span);

}  // namespace weft::control
