#include <fmt/core.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"
#include "weft/scheduling/plan/json_text.h"
#include "weft/scheduling/plan/plan.h"
#include "weft/scheduling/plan/text_table.h"

namespace weft {

namespace {

double mean_bubble(const Simulation& simulation) {
  double sum = 0;
  for (const RankTimes& rank : simulation.ranks) sum += rank.bubble();
  return sum / static_cast<double>(simulation.ranks.size());
}

std::uint32_t in_flight(const Plan& plan) {
  std::uint32_t most = 0;
  for (const RankPeaks& peaks : plan.schedule.peaks) most = std::max(most, peaks.in_flight);
  return most;
}

std::string stages_per_rank(const Plan& plan) {
  const auto less = [](const auto& a, const auto& b) { return a.size() < b.size(); };
  const auto& stages = plan.schedule.stages_of;
  const auto [least, most] = std::minmax_element(stages.begin(), stages.end(), less);
  return least->size() == most->size() ? std::to_string(most->size())
                                       : fmt::format("{}-{}", least->size(), most->size());
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

// All plans of a comparison follow one rule.
std::string gradient_rule(std::span<const ComparedSchedule> schedules) {
  for (const ComparedSchedule& schedule : schedules)
    if (schedule.plan)
      return std::string(schedule.plan->early_gradient ? early_gradient_rule : late_gradient_rule);
  return "";
}

}  // namespace

std::vector<ComparedSchedule> compare_schedules(const std::function<Plan(const std::string&)>& make,
                                                std::span<const std::string> files) {
  std::vector<std::string> names;
  for (const ScheduleInfo& info : all_schedules()) names.emplace_back(info.name);
  names.insert(names.end(), files.begin(), files.end());
  std::vector<ComparedSchedule> result;
  for (const std::string& name : names) {
    ComparedSchedule& schedule = result.emplace_back();
    schedule.name = name;
    try {
      schedule.plan = make(name);
    } catch (const Error& error) {
      schedule.refused = error.what();
    }
  }
  return result;
}

std::function<Plan(const std::string&)> plan_maker(const ScheduleRequest& request,
                                                   const SimulationSettings& costs) {
  return [=](const std::string& name) {
    ScheduleRequest wanted = request;
    wanted.schedule = name;
    Schedule schedule = make_schedule(wanted);
    SimulationSettings settings = costs;
    const double chunks = static_cast<double>(schedule.stage_count) / schedule.ranks;
    const auto part = [&](Nanoseconds cost) {
      return static_cast<Nanoseconds>(static_cast<double>(cost) / chunks);
    };
    for (OpCosts& stage : settings.stages)
      stage = {part(stage.forward), part(stage.input), part(stage.weight), part(stage.update)};
    return make_plan(std::move(schedule), settings);
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
    const bool too_large = memory_limit != 0 && memory > memory_limit;
    lines.push_back({&schedule == best ? "*"
                     : too_large       ? "!"
                                       : "",
                     schedule.name, stages_per_rank(plan), time_text(plan.run().makespan),
                     percent(mean_bubble(plan.run())), std::to_string(in_flight(plan)),
                     fmt::format("{:.3g}", whole_stages_in_flight(plan)),
                     plan.memory.empty() ? "-" : bytes_text(memory)});
  }
  std::string text = to_table(lines);
  if (memory_limit != 0)
    text += fmt::format("* shortest within {}, ! above it\n", bytes_text(memory_limit));
  else if (best != nullptr)
    text += "* shortest\n";
  text += "mean bubble: idle share of the time between a rank's first and last op, mean over the ranks\n";
  text += gradient_rule(schedules);
  if (memory_limit != 0 && best == nullptr) text += "no schedule fits into the memory limit\n";
  if (!refused.empty()) text += "\nNot possible here:\n" + refused;
  return text;
}

std::string comparison_to_json(std::span<const ComparedSchedule> schedules, std::uint64_t memory_limit) {
  JsonText json;
  json.begin_list("schedules");
  for (const ComparedSchedule& schedule : schedules) {
    if (!schedule.plan) {
      json.element({{"schedule", to_utf8(schedule.name)}, {"refused", to_utf8(schedule.refused)}});
      continue;
    }
    const Plan& plan = *schedule.plan;
    nlohmann::ordered_json line{{"schedule", to_utf8(schedule.name)},
                                {"stages", plan.schedule.stage_count},
                                {"makespan", in_units(plan.run().makespan)},
                                {"mean_bubble", mean_bubble(plan.run())},
                                {"in_flight", in_flight(plan)},
                                {"whole_stages", whole_stages_in_flight(plan)}};
    if (!plan.memory.empty()) line["memory"] = plan.largest_memory();
    if (memory_limit != 0) line["fits"] = plan.largest_memory() <= memory_limit;
    json.element(line);
  }
  json.end_list();
  const ComparedSchedule* best = shortest(schedules, memory_limit);
  json.member("shortest",
              best == nullptr ? nlohmann::ordered_json() : nlohmann::ordered_json(to_utf8(best->name)));
  if (memory_limit != 0) json.member("memory_limit", memory_limit);
  return json.finish();
}

}  // namespace weft
