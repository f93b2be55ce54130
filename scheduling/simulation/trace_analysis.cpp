#include "weft/scheduling/simulation/trace_analysis.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "weft/base/error.h"
#include "weft/scheduling/peaks.h"

namespace weft {

namespace {

/// Who made the message of F or of I (or B) of a (stage, micro-batch), and when it could leave.
struct Producer {
  std::uint32_t rank = 0;
  Nanoseconds end = 0;
};
using Producers = std::map<std::tuple<bool, std::uint16_t, std::uint32_t>, Producer>;

Producers find_producers(std::span<const TraceEvent> step) {
  Producers producers;
  for (const TraceEvent& event : step) {
    const bool half = event.kind == TraceKind::input_done;
    if (!half && (event.kind != TraceKind::executed || event.op.kind == OpKind::backward_weight)) continue;
    const std::tuple key{event.op.kind == OpKind::forward, event.op.stage, event.op.microbatch};
    const auto [entry, is_new] = producers.try_emplace(key, Producer{event.rank, event.end});
    if (!is_new) entry->second.end = std::min(entry->second.end, event.end);  // of a B both are there
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
  result.timeline.resize(ranks);
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
    result.timeline[event.rank].add(event.op, event.start, event.end);
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    RankTimes& times = result.ranks[rank];
    times.cool_down = result.makespan - times.last_end - times.update;
    times.peak_in_flight = count_peaks(result.executed[rank]).in_flight;
  }
  return result;
}

namespace {

/// Lengths of the ops of one kind.
struct Lengths {
  double sum = 0;
  double count = 0;
  void add(Nanoseconds length) {
    sum += static_cast<double>(length);
    count += 1;
  }
  [[nodiscard]] Nanoseconds mean() const { return count == 0 ? 0 : static_cast<Nanoseconds>(sum / count); }
};

struct StageLengths {
  Lengths forward, input, weight, update;
};

Nanoseconds median(std::vector<Nanoseconds>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

using OpKey = std::tuple<std::uint32_t, std::uint16_t, std::uint32_t, bool>;  // step, stage, micro-batch, F?

// When the message that F or I (or B) makes left.
std::map<OpKey, Nanoseconds> leaving_times(std::span<const TraceEvent> trace) {
  std::map<OpKey, Nanoseconds> times;
  for (const TraceEvent& event : trace) {
    const bool whole = event.kind == TraceKind::executed && event.op.kind != OpKind::backward_weight &&
                       event.op.kind != OpKind::backward;
    if (whole || event.kind == TraceKind::input_done)
      times[{event.step, event.op.stage, event.op.microbatch, event.op.kind == OpKind::forward}] = event.end;
  }
  return times;
}

Nanoseconds measure_latency(std::span<const TraceEvent> trace) {
  const auto left = leaving_times(trace);
  std::map<std::pair<std::uint16_t, bool>, std::vector<Nanoseconds>> ways;  // (border, F?)
  for (const TraceEvent& event : trace) {
    if (event.kind != TraceKind::arrived) continue;
    const bool forward = event.op.kind == OpKind::forward;
    const auto source = static_cast<std::uint16_t>(forward ? event.op.stage - 1 : event.op.stage + 1);
    const auto sent = left.find({event.step, source, event.op.microbatch, forward});
    if (sent == left.end()) continue;
    ways[{forward ? source : event.op.stage, forward}].push_back(event.start - sent->second);
  }
  double sum = 0;
  for (auto& [way, times] : ways) sum += static_cast<double>(median(times));
  return ways.empty() ? 0 : static_cast<Nanoseconds>(std::max(sum / static_cast<double>(ways.size()), 0.0));
}

// The training events that count: without the first step, whose ops find cold caches and untouched memory.
std::vector<TraceEvent> warm_events(std::span<const TraceEvent> trace) {
  const std::vector<std::uint32_t> steps = traced_steps(trace);
  if (steps.empty()) throw ScheduleError("the trace holds no training step");
  std::vector<TraceEvent> events;
  for (const TraceEvent& event : trace)
    if (event.phase == Phase::train && (event.step != steps.front() || steps.size() == 1))
      events.push_back(event);
  return events;
}

}  // namespace

MeasuredCosts measure_costs(std::span<const TraceEvent> trace) {
  const std::vector<TraceEvent> events = warm_events(trace);
  const auto left = leaving_times(events);
  std::map<std::uint16_t, StageLengths> lengths;
  std::map<std::uint32_t, std::set<std::uint16_t>> stages_of;
  std::map<std::uint16_t, std::uint32_t> rank_of;
  for (const TraceEvent& event : events) {
    if (event.kind != TraceKind::executed) continue;
    const Op& op = event.op;
    StageLengths& stage = lengths[op.stage];
    stages_of[event.rank].insert(op.stage);
    if (rank_of.try_emplace(op.stage, event.rank).first->second != event.rank)
      throw ScheduleError(fmt::format("the trace has stage {} on two ranks", op.stage));
    const Nanoseconds length = event.end - event.start;
    if (op.kind == OpKind::forward) stage.forward.add(length);
    if (op.kind == OpKind::backward_input) stage.input.add(length);
    if (op.kind == OpKind::backward_weight) stage.weight.add(length);
    if (op.kind != OpKind::backward) continue;
    const auto half = left.find({event.step, op.stage, op.microbatch, false});
    if (half == left.end()) throw ScheduleError("the trace has a B without the end of its I part");
    if (half->second < event.start || half->second > event.end)
      throw ScheduleError(fmt::format("the trace has the end of {}'s I part outside of it, in step {}",
                                      to_string(op), event.step));
    stage.input.add(half->second - event.start);
    stage.weight.add(event.end - half->second);
  }
  for (const TraceEvent& event : events)
    if (event.kind == TraceKind::update)
      for (const std::uint16_t stage : stages_of[event.rank])
        lengths[stage].update.add((event.end - event.start) /
                                  static_cast<Nanoseconds>(stages_of[event.rank].size()));
  MeasuredCosts costs;
  for (const auto& [number, stage] : lengths) {
    if (number != costs.stages.size() || stage.forward.count == 0 || stage.input.count == 0)
      throw ScheduleError(fmt::format("the trace has not all ops of stage {}", costs.stages.size()));
    costs.stages.push_back(
        {stage.forward.mean(), stage.input.mean(), stage.weight.mean(), stage.update.mean()});
  }
  for (const auto& [stage, rank] : rank_of)  // counted anew: a file may hold any number
    costs.rank_of.push_back(
        static_cast<std::uint32_t>(std::distance(stages_of.begin(), stages_of.find(rank))));
  costs.latency = measure_latency(events);
  return costs;
}

}  // namespace weft
