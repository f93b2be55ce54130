#include "weft/scheduling/trace_analysis.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "weft/base/error.h"
#include "weft/scheduling/peaks.h"

namespace weft {

namespace {

/// Who ended F or the I (or B) of a (stage, micro-batch), and when.
struct Producer {
  std::uint32_t rank = 0;
  Nanoseconds end = 0;
};
using Producers = std::map<std::tuple<bool, std::uint16_t, std::uint32_t>, Producer>;

Producers find_producers(std::span<const TraceEvent> step) {
  Producers producers;
  for (const TraceEvent& event : step) {
    if (event.kind != TraceKind::executed || event.op.kind == OpKind::backward_weight) continue;
    producers[{event.op.kind == OpKind::forward, event.op.stage, event.op.microbatch}] = {event.rank,
                                                                                          event.end};
  }
  return producers;
}

// When what `op` needs from another rank was ready there; `otherwise` when it needs nothing from another
// rank.
Nanoseconds ready_time(const Producers& producers, const TraceEvent& event, Nanoseconds otherwise) {
  const Op& op = event.op;
  const bool forward = op.kind == OpKind::forward;
  if (op.kind == OpKind::backward_weight || (forward && op.stage == 0)) return otherwise;
  const auto stage = static_cast<std::uint16_t>(forward ? op.stage - 1 : op.stage + 1);
  const auto producer = producers.find({forward, stage, op.microbatch});
  if (producer == producers.end() || producer->second.rank == event.rank) return otherwise;
  return producer->second.end;
}

}  // namespace

std::vector<std::uint32_t> traced_steps(std::span<const TraceEvent> events) {
  std::set<std::uint32_t> steps;
  for (const TraceEvent& event : events)
    if (event.phase == Phase::train && event.kind == TraceKind::executed) steps.insert(event.step);
  return {steps.begin(), steps.end()};
}

std::vector<TraceEvent> events_of_step(std::span<const TraceEvent> events, std::uint32_t step) {
  std::vector<TraceEvent> result;
  Nanoseconds first = INT64_MAX;
  for (const TraceEvent& event : events) {
    if (event.step != step || event.phase != Phase::train) continue;
    result.push_back(event);
    if (event.kind == TraceKind::executed) first = std::min(first, event.start);
  }
  for (TraceEvent& event : result) {
    event.start -= first;
    event.end -= first;
  }
  std::stable_sort(result.begin(), result.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return std::tie(a.rank, a.start) < std::tie(b.rank, b.start);
  });
  return result;
}

Order executed_order(std::span<const TraceEvent> step, std::uint32_t ranks) {
  Order order(ranks);
  for (const TraceEvent& event : step) {
    if (event.kind != TraceKind::executed) continue;
    if (event.rank >= ranks)
      throw ScheduleError(
          fmt::format("trace: it has a rank {}, the plan has ranks 0 to {}", event.rank, ranks - 1));
    order[event.rank].push_back(event.op);
  }
  return order;
}

Simulation measure_step(std::span<const TraceEvent> step, std::uint32_t ranks) {
  Simulation result;
  result.executed = executed_order(step, ranks);
  result.events.assign(step.begin(), step.end());
  result.ranks.resize(ranks);
  const Producers producers = find_producers(step);
  std::vector<bool> started(ranks, false);
  for (const TraceEvent& event : step) {
    if (event.rank >= ranks) continue;
    RankTimes& rank = result.ranks[event.rank];
    result.makespan = std::max(result.makespan, event.end);
    if (event.kind == TraceKind::update) rank.update += event.end - event.start;
    if (event.kind != TraceKind::executed) continue;
    if (!started[event.rank]) {
      started[event.rank] = true;
      rank.first_start = rank.ramp_up = event.start;
    } else if (const Nanoseconds gap = event.start - rank.last_end; gap > 0) {
      const Nanoseconds ready = ready_time(producers, event, event.start);
      const Nanoseconds dependency = std::clamp<Nanoseconds>(ready - rank.last_end, 0, gap);
      rank.dependency_wait += dependency;
      rank.transfer_wait += gap - dependency;
    }
    rank.busy += event.end - event.start;
    rank.last_end = event.end;
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    RankTimes& times = result.ranks[rank];
    times.cool_down = result.makespan - times.last_end - times.update;
    times.peak_in_flight = count_peaks(result.executed[rank]).in_flight;
  }
  return result;
}

}  // namespace weft
