#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "weft/base/error.h"
#include "weft/scheduling/plan/plan.h"
#include "weft/scheduling/plan/text_table.h"

namespace weft {

namespace {

double mean_bubble(const Simulation& simulation) {
  double sum = 0;
  for (const RankTimes& rank : simulation.ranks) sum += rank.bubble();
  return sum / static_cast<double>(simulation.ranks.size());
}

// Pairs in flight on the fullest rank, in stages of the size that one stage per rank has.
double whole_stages_in_flight(const Plan& plan) {
  double most = 0;
  for (std::uint32_t rank = 0; rank < plan.schedule.ranks; ++rank)
    most = std::max(most, static_cast<double>(plan.schedule.peaks[rank].in_flight) /
                              static_cast<double>(plan.schedule.stages_of[rank].size()));
  return most;
}

const ComparedSchedule* shortest(std::span<const ComparedSchedule> schedules, std::uint64_t memory_limit) {
  const ComparedSchedule* best = nullptr;
  for (const ComparedSchedule& schedule : schedules) {
    if (!schedule.plan || (memory_limit != 0 && schedule.plan->largest_memory() > memory_limit)) continue;
    if (best == nullptr || schedule.plan->run().makespan < best->plan->run().makespan) best = &schedule;
  }
  return best;
}

}  // namespace

std::vector<ComparedSchedule> compare_schedules(const std::function<Plan(const ScheduleInfo&)>& make) {
  std::vector<ComparedSchedule> result;
  for (const ScheduleInfo& info : all_schedules()) {
    ComparedSchedule& schedule = result.emplace_back();
    schedule.name = info.name;
    try {
      schedule.plan = make(info);
    } catch (const Error& error) {
      schedule.refused = error.what();
    }
  }
  return result;
}

std::function<Plan(const ScheduleInfo&)> plan_maker(const ScheduleRequest& request,
                                                    const SimulationSettings& costs) {
  return [=](const ScheduleInfo& info) {
    ScheduleRequest wanted = request;
    wanted.schedule = info.name;
    SimulationSettings settings = costs;
    for (OpCosts& stage : settings.stages) {
      const auto v = static_cast<Nanoseconds>(request.chunks == 0 ? info.default_chunks : request.chunks);
      stage = {stage.forward / v, stage.input / v, stage.weight / v, stage.update / v};
    }
    return make_plan(make_schedule(wanted), settings);
  };
}

std::string comparison_to_text(std::span<const ComparedSchedule> schedules, std::uint64_t memory_limit) {
  const ComparedSchedule* best = shortest(schedules, memory_limit);
  std::vector<std::vector<std::string>> lines{
      {"", "schedule", "stages/rank", "makespan", "mean bubble", "in flight", "whole stages", "memory"}};
  std::string refused;
  for (const ComparedSchedule& schedule : schedules) {
    if (!schedule.plan) {
      refused += fmt::format("{}: {}\n", schedule.name, schedule.refused);
      continue;
    }
    const Plan& plan = *schedule.plan;
    const std::uint64_t memory = plan.largest_memory();
    std::uint32_t in_flight = 0;
    for (const RankPeaks& peaks : plan.schedule.peaks) in_flight = std::max(in_flight, peaks.in_flight);
    const bool too_large = memory_limit != 0 && memory > memory_limit;
    lines.push_back({&schedule == best ? "*"
                     : too_large       ? "!"
                                       : "",
                     schedule.name, fmt::format("{}", plan.schedule.stages_of[0].size()),
                     time_text(plan.run().makespan), percent(mean_bubble(plan.run())),
                     std::to_string(in_flight), fmt::format("{:.3g}", whole_stages_in_flight(plan)),
                     plan.memory.empty() ? "-" : bytes_text(memory)});
  }
  std::string text = to_table(lines);
  if (memory_limit != 0)
    text += fmt::format("* shortest within {}, ! above it\n", bytes_text(memory_limit));
  else if (best != nullptr)
    text += "* shortest\n";
  if (memory_limit != 0 && best == nullptr) text += "no schedule fits into the memory limit\n";
  if (!refused.empty()) text += "\nNot possible here:\n" + refused;
  return text;
}

}  // namespace weft
