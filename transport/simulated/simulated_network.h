#pragma once
// A network for tests: ranks in one thread, time that moves by hand, messages that come late and out of
// order. Everything it does is a function of the seed and of the calls made.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "weft/transport/transport.h"

namespace weft {

/// How long a message is on its way, uniformly between the two; one in eight takes up to ten times as long.
struct SimulatedDelays {
  Nanoseconds shortest = 1'000;
  Nanoseconds longest = 1'000'000;
};

/// The network between the transports of one test. A message begins to arrive (accept) some time after it was
/// sent and is complete (delivered) some time later; others may overtake it at both. The sender may hear of
/// `sent` long before or long after that; the payload is read in between, at the worst moment that the
/// contract of Transport allows.
class SimulatedNetwork {
 public:
  SimulatedNetwork(std::uint32_t ranks, std::uint64_t seed, SimulatedDelays delays = {});
  ~SimulatedNetwork();
  SimulatedNetwork(const SimulatedNetwork&) = delete;
  SimulatedNetwork& operator=(const SimulatedNetwork&) = delete;

  /// The transport of one rank, to be taken once; the network outlives it. It has no descriptor, wake() does
  /// nothing, and close() returns at once: what is under way still arrives. One that is destroyed without
  /// close() is killed.
  [[nodiscard]] std::unique_ptr<Transport> transport(std::uint32_t rank);

  /// Simulated time, from 0.
  [[nodiscard]] Nanoseconds now() const noexcept;
  /// Moves time to the next moment at which something happens to any rank, which its next progress() finds.
  /// False, and time stands, when nothing is under way. Call it when no rank has anything to do.
  bool step();

  /// The rank is gone at once, with all it has under way; the others hear of it after a delay.
  void kill(std::uint32_t rank);
  /// From now on messages for which `lose` is true never arrive, though their sender hears of `sent`.
  void lose(std::function<bool(std::uint32_t from, std::uint32_t to, const MessageHeader&)> lose);

 private:
  struct State;
  class Rank;
  std::unique_ptr<State> state_;
};

}  // namespace weft
