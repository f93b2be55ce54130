#include "weft/scheduling/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"
#include "weft/scheduling/orders/order_text.h"
#include "weft/scheduling/simulation/chrome_trace.h"
#include "weft/scheduling/weight_turns.h"

namespace weft {

std::uint64_t Plan::largest_memory() const noexcept {
  std::uint64_t largest = 0;
  for (std::uint32_t rank = 0; rank < schedule.ranks; ++rank) {
    std::uint64_t sum = 0;
    for (const MemoryColumn& column : memory) sum += column.bytes[rank];
    largest = std::max(largest, sum);
  }
  return largest;
}

SimulationSettings uniform_costs(double forward, double input, double weight, double latency) {
  const auto time = [](double units, const char* what) {
    if (units > 0 && units < 1e-3)
      throw ScheduleError(
          fmt::format("the cost of {} is {}; allowed: 0, or 0.001 to 1e9; give all costs in a smaller unit",
                      what, units));
    if (!(units >= 0 && units <= 1e9))
      throw ScheduleError(fmt::format("the cost of {} is {}; allowed: 0, or 0.001 to 1e9", what, units));
    return std::llround(units * static_cast<double>(cost_unit));
  };
  SimulationSettings settings;
  settings.stages = {OpCosts{time(forward, "F"), time(input, "I"), time(weight, "W"), 0}};
  settings.link.latency = time(latency, "a message");
  return settings;
}

Plan make_plan(Schedule schedule, const SimulationSettings& settings) {
  Plan plan;
  plan.schedule = std::move(schedule);
  plan.early_gradient = settings.early_gradient;
  if (plan.schedule.dynamic) {
    plan.published = simulate(plan.schedule, settings);
    return plan;
  }
  plan.published = simulate_published(plan.schedule, settings);
  if (!std::all_of(plan.schedule.order.begin(), plan.schedule.order.end(), is_in_turn))
    plan.as_run = simulate(plan.schedule, settings);
  return plan;
}

std::string plan_to_csv(const Plan& plan) {
  std::string text;
  for (const RankTimeline& rank : plan.published.timeline) text += to_csv({rank.order()});
  return text;
}

std::string plan_to_chrome(const Plan& plan) {
  return to_chrome_trace(plan.run().events, fmt::format("weft plan: {}", plan.schedule.name),
                         plan.schedule.rank_of);
}

}  // namespace weft
