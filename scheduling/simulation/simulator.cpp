#include "weft/scheduling/simulation/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "weft/base/error.h"
#include "weft/scheduling/policies/ordered_policy.h"
#include "weft/scheduling/simulation/simulation_run.h"

namespace weft {

namespace simulation {

namespace {

template <class T>
const T& of(const std::vector<T>& list, std::size_t i) {
  return list.size() == 1 ? list[0] : list[i];
}

void check_length(std::size_t length, std::size_t wanted, const char* what) {
  if (length != 1 && length != wanted)
    throw ScheduleError(
        fmt::format("simulation: {} values for {} {}; allowed: 1 or {}", length, wanted, what, wanted));
}

}  // namespace

Simulator::Simulator(const Schedule& schedule, const SimulationSettings& settings,
                     const PolicyFactory& policies)
    : schedule_(schedule),
      settings_(settings),
      op_random_(settings.seed, RandomPurpose::simulation, 0),
      message_random_(settings.seed, RandomPurpose::simulation, 1) {
  check_length(settings.stages.size(), schedule.stage_count, "stages");
  check_length(settings.border_bytes.size(), schedule.stage_count, "stages");
  if (!settings.slots.empty()) check_length(settings.slots.size(), schedule.ranks, "ranks");
  for (std::uint32_t stage = 0; stage < schedule.stage_count; ++stage) {
    const OpCosts& costs = of(settings.stages, stage);
    if (std::min({costs.forward, costs.input, costs.weight, costs.update}) < 0)
      throw ScheduleError(fmt::format("simulation: a cost of stage {} is negative", stage));
    costs_.push_back(costs);
  }
  add_edges();
  refuse_too_long();
  ranks_.reserve(schedule.ranks);
  for (std::uint32_t rank = 0; rank < schedule.ranks; ++rank) {
    const std::uint32_t slots =
        settings.slots.empty() ? schedule.peaks[rank].in_flight : of(settings.slots, rank);
    RankRun& run = ranks_.emplace_back(
        RankState(rank, schedule.stage_count, schedule.stages_of[rank], schedule.microbatches, slots),
        policies(rank));
    run.pairs_left = std::uint64_t{schedule.microbatches} * schedule.stages_of[rank].size();
    run.state.begin_step(settings.phase);
    run.policy->begin_step(1, settings.phase);
  }
  if (settings.record) result_.executed.resize(schedule.ranks);
}

std::uint32_t Simulator::link_between(std::uint32_t from, std::uint32_t to) {
  const auto [entry, is_new] =
      link_numbers_.try_emplace({from, to}, static_cast<std::uint32_t>(links_.size()));
  if (is_new) {
    LinkState& state = links_.emplace_back();
    state.link = settings_.link;
    for (const LinkBetween& other : settings_.links)
      if (other.from == from && other.to == to) state.link = other.link;
    if (state.link.latency < 0 || !(state.link.bytes_per_second >= 0))
      throw ScheduleError(
          fmt::format("simulation: the link from rank {} to {} has a negative cost", from, to));
    if (state.link.latency > 0 || state.link.bytes_per_second > 0) transfers_take_time_ = true;
  }
  return entry->second;
}

void Simulator::add_edges() {
  for (std::uint32_t stage = 0; stage + 1 < schedule_.stage_count; ++stage) {
    const std::uint32_t below = schedule_.rank_of[stage];
    const std::uint32_t above = schedule_.rank_of[stage + 1];
    for (const auto& [from, to] : {std::pair(below, above), std::pair(above, below)}) {
      Edge& edge = edges_.emplace_back();
      edge.from = from;
      edge.to = to;
      edge.bytes = of(settings_.border_bytes, stage);
      edge.credits = settings_.credits == 0 ? UINT32_MAX : settings_.credits;
      if (from != to) edge.link = link_between(from, to);
    }
  }
  if (transfers_take_time_)
    for (Edge& edge : edges_)
      if (edge.from != edge.to) edge.produced.assign(schedule_.microbatches, 0);
}

// Times stay in range even if all ops and messages come one after another.
void Simulator::refuse_too_long() const {
  double time = 2 * static_cast<double>(settings_.link.latency) * schedule_.stage_count;
  for (const OpCosts& costs : costs_)
    for (const Nanoseconds part : {costs.forward, costs.input, costs.weight, costs.update})
      time += static_cast<double>(part);
  if (time * schedule_.microbatches > 9e18)
    throw ScheduleError(
        "the costs of all ops add up to more than a clock holds; give all costs in a larger unit");
}

}  // namespace simulation

Simulation simulate(const Schedule& schedule, const SimulationSettings& settings) {
  return simulate(schedule, settings, [&](std::uint32_t rank) { return make_policy(schedule, rank); });
}

Simulation simulate(const Schedule& schedule, const SimulationSettings& settings,
                    const PolicyFactory& policies) {
  return simulation::Simulator(schedule, settings, policies).run();
}

Simulation simulate_published(const Schedule& schedule, const SimulationSettings& settings) {
  SimulationSettings unbounded = settings;
  unbounded.slots = {UINT32_MAX};
  return simulate(schedule, unbounded,
                  [&](std::uint32_t rank) { return std::make_unique<OrderedPolicy>(schedule.order[rank]); });
}

}  // namespace weft
