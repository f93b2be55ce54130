// Ranks as processes over UCX that are slowed down at random: whatever comes when, every rank executes the
// planned order, and the trace says what was held and what had arrived.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "hand_stepped.h"
#include "weft/actors/rank.h"
#include "weft/base/error.h"
#include "weft/scheduling/simulation/trace_analysis.h"
#include "weft/scheduling/weight_turns.h"
#include "weft/tests/transport/process_group.h"

namespace weft {
namespace {

using toy::ToyBatch;
using toy::ToyOptions;

std::size_t count(std::span<const TraceEvent> events, TraceKind kind) {
  return static_cast<std::size_t>(
      std::count_if(events.begin(), events.end(), [&](const TraceEvent& e) { return e.kind == kind; }));
}

// Messages that the rank gets from others in a step.
std::size_t expected_arrivals(const Schedule& schedule, std::uint32_t rank) {
  std::size_t borders = 0;
  for (std::uint32_t stage = 0; stage + 1 < schedule.stage_count; ++stage) {
    const std::uint32_t below = schedule.rank_of[stage];
    const std::uint32_t above = schedule.rank_of[stage + 1];
    if (below != above && (below == rank || above == rank)) ++borders;
  }
  return borders * schedule.microbatches;
}

std::size_t count_held(const Schedule& schedule, std::uint32_t rank) {
  WeightTurns turns(schedule.stages_of[rank], schedule.microbatches);
  std::size_t held = 0;
  for (const Op& op : schedule.order[rank]) {
    while (turns.take_due()) continue;
    const std::optional<Op> admitted = turns.admit(op);
    if (!admitted || *admitted != op) ++held;
  }
  return held;
}

void check_step(const std::vector<TraceEvent>& trace, std::uint32_t step, const Schedule& schedule,
                std::uint32_t rank) {
  const std::vector<TraceEvent> events = events_of_step(trace, step);
  const RankOrder executed = executed_order(events, schedule.ranks)[rank];
  const auto backwards = static_cast<std::size_t>(std::count_if(
      executed.begin(), executed.end(), [](const Op& op) { return op.kind == OpKind::backward; }));
  if (!schedule.dynamic && executed != as_run(schedule.order[rank]))
    throw Error(fmt::format("step {}: not the planned order", step));
  if (count(events, TraceKind::arrived) != expected_arrivals(schedule, rank))
    throw Error(fmt::format("step {}: {} arrivals traced, not {}", step, count(events, TraceKind::arrived),
                            expected_arrivals(schedule, rank)));
  if (count(events, TraceKind::input_done) != backwards || count(events, TraceKind::update) != 1)
    throw Error(fmt::format("step {}: the halves of B or the update are not traced", step));
  if (!schedule.dynamic && count(events, TraceKind::held) != count_held(schedule, rank))
    throw Error(fmt::format("step {}: {} held W traced, the plan holds {}", step,
                            count(events, TraceKind::held), count_held(schedule, rank)));
}

class UcxOrder : public testing::TestWithParam<std::string> {};

TEST_P(UcxOrder, IsThePlannedOneUnderRandomDelays) {
  constexpr std::uint32_t ranks = 3;
  constexpr std::uint32_t m = 6;
  ToyOptions toy;
  toy.longest_delay = 500'000;
  const PipelinePlan plan = toy::toy_plan(GetParam(), ranks, m, toy);
  const auto endings = test::run_processes(ranks, [&](std::uint32_t number, const ByteExchange& exchange) {
    const auto transport = make_ucx_transport(number, ranks, exchange);
    Rank rank(number, plan, toy::toy_stages(toy), toy::toy_optimizer(), *transport, {});
    std::vector<TraceEvent> trace;
    rank.actor().trace(&trace);
    for (std::uint32_t step = 1; step <= 3; ++step) {  // the first without delays
      ToyBatch batch(step, m, toy);
      rank.train(step, batch);
      check_step(trace, step, plan.schedule, number);
    }
    transport->close(now_ns() + 10'000'000'000);
  });
  EXPECT_EQ(test::first_error(endings), "");
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const ScheduleInfo& schedule : all_schedules()) all.emplace_back(schedule.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(EverySchedule, UcxOrder, testing::ValuesIn(names()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace weft
