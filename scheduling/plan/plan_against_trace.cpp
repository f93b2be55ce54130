#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string>
#include <tuple>

#include "weft/base/error.h"
#include "weft/scheduling/plan/op_means.h"
#include "weft/scheduling/plan/plan.h"
#include "weft/scheduling/plan/text_table.h"
#include "weft/scheduling/simulation/trace_analysis.h"

namespace weft {

namespace {

// The step asked for; 0 = the last one.
std::uint32_t choose_step(std::span<const TraceEvent> trace, std::uint32_t step) {
  const std::vector<std::uint32_t> steps = traced_steps(trace);
  if (steps.empty()) throw ScheduleError("the trace holds no training step");
  if (step == 0) return steps.back();
  if (std::find(steps.begin(), steps.end(), step) == steps.end())
    throw ScheduleError(
        fmt::format("the trace holds no step {}; it has {} to {}", step, steps.front(), steps.back()));
  return step;
}

// The trace's own sizes, before anything is put where the plan's have room.
void check_same_sizes(const Schedule& schedule, std::span<const TraceEvent> step) {
  std::uint64_t ranks = 0;
  std::uint64_t stages = 0;
  std::uint64_t microbatches = 0;
  for (const TraceEvent& event : step) {
    if (event.kind != TraceKind::executed) continue;
    ranks = std::max(ranks, event.rank + std::uint64_t{1});
    stages = std::max(stages, event.op.stage + std::uint64_t{1});
    microbatches = std::max(microbatches, event.op.microbatch + std::uint64_t{1});
  }
  for (const auto& [what, found, wanted] : {std::tuple{"ranks", ranks, schedule.ranks},
                                            {"stages", stages, schedule.stage_count},
                                            {"micro-batches a step", microbatches, schedule.microbatches}})
    if (found != wanted)
      throw ScheduleError(fmt::format("the trace is of another pipeline: it has {} {}, the plan has {}",
                                      found, what, wanted));
}

void check_same_pipeline(const Plan& plan, const Simulation& run) {
  std::vector<bool> seen(plan.schedule.stage_count, false);
  for (std::uint32_t rank = 0; rank < plan.schedule.ranks; ++rank) {
    if (run.executed[rank].empty()) throw ScheduleError(fmt::format("the trace has no op of rank {}", rank));
    for (const Op& op : run.executed[rank]) {
      if (op.stage >= plan.schedule.stage_count || plan.schedule.rank_of[op.stage] != rank)
        throw ScheduleError(fmt::format("the trace has {} on rank {}, where the plan has no stage {}",
                                        to_string(op), rank, op.stage));
      seen[op.stage] = true;
    }
  }
  for (std::uint32_t stage = 0; stage < seen.size(); ++stage)
    if (!seen[stage]) throw ScheduleError(fmt::format("the trace has no op of stage {}", stage));
}

std::string order_differences(const Simulation& planned, const Simulation& run) {
  std::string text;
  const auto cell = [](const std::optional<Op>& op) { return op ? to_string(*op) : "nothing"; };
  for (const OpDifference& one : first_differences(planned, run))
    text += fmt::format("rank {}: op {} is {} in the plan, {} in the run\n", one.rank, one.position,
                        cell(one.planned), cell(one.executed));
  return text.empty() ? "Every rank executed the planned order.\n" : text;
}

// Mean length of the ops of each kind at each stage, in the plan and in the run.
std::string cost_table(const Simulation& planned, const Simulation& run, std::uint32_t stages) {
  const std::array means{op_means(planned, stages), op_means(run, stages)};
  std::vector<std::vector<std::string>> lines{
      {"stage", "F plan", "F run", "B plan", "B run", "I plan", "I run", "W plan", "W run"}};
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    auto& line = lines.emplace_back(1, std::to_string(stage));
    for (std::size_t kind = 0; kind < 4; ++kind)
      for (const auto& side : means) {
        const OpMean& mean = side[stage][kind];
        line.push_back(mean.count == 0 ? "-" : time_text(mean.time()));
      }
  }
  return to_table(lines);
}

std::string time_table(const Simulation& planned, const Simulation& run) {
  std::vector<std::vector<std::string>> lines{{"rank", "", "makespan", "busy", "ramp up", "dependency",
                                               "transfer", "cool down", "update", "bubble", "in flight"}};
  for (std::size_t rank = 0; rank < planned.ranks.size(); ++rank)
    for (const Simulation* side : {&planned, &run}) {
      const RankTimes& times = side->ranks[rank];
      const bool plan = side == &planned;
      lines.push_back({plan ? std::to_string(rank) : "", plan ? "plan" : "run", time_text(side->makespan),
                       time_text(times.busy), time_text(times.ramp_up), time_text(times.dependency_wait),
                       time_text(times.transfer_wait), time_text(times.cool_down), time_text(times.update),
                       percent(times.bubble()), std::to_string(times.peak_in_flight)});
    }
  return to_table(lines);
}

}  // namespace

PlanAgainstTrace lay_against_trace(const Plan& plan, std::span<const TraceEvent> trace, std::uint32_t step) {
  const std::uint32_t chosen = choose_step(trace, step);
  const std::vector<TraceEvent> events = events_of_step(trace, chosen);
  check_same_sizes(plan.schedule, events);
  PlanAgainstTrace both{plan, chosen, measure_step(events, plan.schedule.ranks)};
  check_same_pipeline(plan, both.run);
  return both;
}

std::string against_trace_to_text(const PlanAgainstTrace& both, std::uint32_t width) {
  const Plan& plan = both.plan;
  const Simulation& planned = plan.run();
  const Simulation& run = both.run;
  std::string text = fmt::format("{}: plan and run, step {} of the trace\n\nplan, makespan {}\n",
                                 plan.schedule.name, both.step, time_text(planned.makespan));
  text += draw_timeline(planned, plan.schedule, planned.makespan, width, Palette::plain);
  text += fmt::format("\nrun, makespan {}\n", time_text(run.makespan));
  text += draw_timeline(run, plan.schedule, run.makespan, width, Palette::plain);
  text += '\n';
  text += order_differences(planned, run);
  text += "\nWhere the time went (bubble: idle share of the time between a rank's first and last op)\n";
  text += time_table(planned, run);
  text += "\nMean time of an op\n";
  text += cost_table(planned, run, plan.schedule.stage_count);
  return text;
}

}  // namespace weft
