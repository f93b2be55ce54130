#pragma once
// Plays a schedule in virtual time: no tensors, no messages, but the runtime's own policy objects.
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weft/scheduling/orders/schedule.h"
#include "weft/scheduling/simulation/timeline.h"
#include "weft/scheduling/simulation/trace.h"

namespace weft {

/// How long the ops of a stage take; B takes input + weight.
struct OpCosts {
  Nanoseconds forward = 1'000'000;
  Nanoseconds input = 1'000'000;
  Nanoseconds weight = 1'000'000;
  Nanoseconds update = 0;
};

/// A connection from one rank to another. Messages on it leave one after another and may overtake each other
/// only by jitter of the latency.
struct Link {
  Nanoseconds latency = 0;
  double bytes_per_second = 0;  ///< 0 = unlimited
};

struct LinkBetween {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  Link link;
};

/// What a simulation keeps beside the times of its ranks: nothing; when every op ran; every event, too.
enum class Record : std::uint8_t { nothing, timeline, events };

/// What a simulation assumes. Lists of stages and ranks may hold one value that stands for all.
struct SimulationSettings {
  std::vector<OpCosts> stages{OpCosts{}};      ///< [stage]
  Link link;                                   ///< between any two ranks ...
  std::vector<LinkBetween> links;              ///< ... but these
  std::vector<std::uint64_t> border_bytes{0};  ///< [stage]: bytes of the message from it to the next stage
                                               ///< (and of the gradient that comes back)
  double compute_jitter = 0;                   ///< sigma of a log-normal factor of mean 1 on every op
  double latency_jitter = 0;                   ///< the same on every message's latency
  std::uint64_t seed = 1;
  std::vector<std::uint32_t> slots;  ///< [rank], empty = the schedule's own peaks
  std::uint32_t credits = 0;         ///< messages unconsumed per border and direction, 0 = no limit
  /// Cores that all ranks share evenly, 0 = one for each rank. With fewer cores than ranks at work, every op
  /// slows down alike; its cost is the time that it takes alone.
  std::uint32_t cores = 0;
  bool early_gradient = false;  ///< a B's gradient leaves after its I part, as in a run, not at its end
  Phase phase = Phase::train;
  Record record = Record::events;
};

/// A rank's time: makespan = busy + update + ramp_up + dependency_wait + transfer_wait + cool_down.
struct RankTimes {
  Nanoseconds busy = 0;  ///< inside ops, slowed down or not
  Nanoseconds update = 0;
  Nanoseconds first_start = 0;
  Nanoseconds last_end = 0;
  Nanoseconds ramp_up = 0;          ///< before the first op
  Nanoseconds dependency_wait = 0;  ///< another rank had not finished what the next op needs
  Nanoseconds transfer_wait = 0;    ///< it had, but the message was on its way, or a credit was missing
  Nanoseconds cool_down = 0;        ///< after the last op, the update excepted
  std::uint32_t peak_in_flight = 0;

  [[nodiscard]] Nanoseconds span() const noexcept { return last_end - first_start; }
  /// Idle share of the span, as a run reports it.
  [[nodiscard]] double bubble() const noexcept {
    return span() > 0 ? static_cast<double>(span() - busy) / static_cast<double>(span()) : 0.0;
  }
};

struct LinkTraffic {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;
};

struct Simulation {
  Nanoseconds makespan = 0;
  std::vector<RankTimes> ranks;
  std::vector<LinkTraffic> links;      ///< those that carried messages, by (from, to)
  std::vector<RankTimeline> timeline;  ///< [rank], with Record::timeline or events
  Order executed;                      ///< with Record::events
  std::vector<TraceEvent> events;      ///< with Record::events, in the order of their end
};

/// Makes the policy of a rank.
using PolicyFactory = std::function<std::unique_ptr<Policy>(std::uint32_t rank)>;

/// One step of `schedule` as a run executes it, by the policies of make_policy. Time and memory are linear in
/// the number of ops (but for a logarithm in the number of ranks). Throws ScheduleError when it comes to a
/// standstill, with the state of every waiting rank, and when `settings` do not fit the schedule.
[[nodiscard]] Simulation simulate(const Schedule& schedule, const SimulationSettings& settings);

/// One step by other policies; they keep W in turn where InTurnPolicy stands before them.
[[nodiscard]] Simulation simulate(const Schedule& schedule, const SimulationSettings& settings,
                                  const PolicyFactory& policies);

/// One step of the order as published: a B out of turn is one op, no W is held.
[[nodiscard]] Simulation simulate_published(const Schedule& schedule, const SimulationSettings& settings);

}  // namespace weft
