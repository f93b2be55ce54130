#include "weft/scheduling/plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "weft/base/error.h"
#include "weft/scheduling/orders/order_text.h"
#include "weft/scheduling/plan/text_table.h"
#include "weft/scheduling/simulation/chrome_trace.h"
#include "weft/scheduling/weight_turns.h"

namespace weft {

namespace {

using Out = std::back_insert_iterator<std::string>;

double in_units(Nanoseconds time) { return static_cast<double>(time) / static_cast<double>(cost_unit); }

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : to_utf8(text)) {
    if (c == '"' || c == '\\')
      result += {'\\', c};
    else if (static_cast<unsigned char>(c) < ' ')
      result += fmt::format("\\u{:04x}", c);
    else
      result += c;
  }
  return result + '"';
}

void write_rank(Out out, const Simulation& simulation, std::size_t rank) {
  const RankTimes& times = simulation.ranks[rank];
  out = fmt::format_to(out, "{{\"order\": [");
  const char* separator = "";
  for (const std::string& cell : to_cells(simulation.executed[rank])) {
    out = fmt::format_to(out, "{}\"{}\"", separator, cell);
    separator = ", ";
  }
  fmt::format_to(
      out,
      "], \"busy\": {}, \"span\": {}, \"idle\": {}, \"bubble\": {}, \"peak_in_flight\": {}, "
      "\"ramp_up\": {}, \"dependency_wait\": {}, \"transfer_wait\": {}, \"cool_down\": {}, \"update\": {}}}",
      in_units(times.busy), in_units(times.span()), in_units(simulation.makespan - times.busy - times.update),
      times.bubble(), times.peak_in_flight, in_units(times.ramp_up), in_units(times.dependency_wait),
      in_units(times.transfer_wait), in_units(times.cool_down), in_units(times.update));
}

// The members makespan and ranks of a JSON object, `indent` deep.
void write_simulation(Out out, const Simulation& simulation, const char* indent) {
  out = fmt::format_to(out, "{}\"makespan\": {},\n{}\"ranks\": [", indent, in_units(simulation.makespan),
                       indent);
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    out = fmt::format_to(out, "{}\n{}  ", rank == 0 ? "" : ",", indent);
    write_rank(out, simulation, rank);
  }
  fmt::format_to(out, "\n{}]", indent);
}

}  // namespace

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
  if (plan.schedule.dynamic) {
    plan.published = simulate(plan.schedule, settings);
    return plan;
  }
  plan.published = simulate_published(plan.schedule, settings);
  if (!std::all_of(plan.schedule.order.begin(), plan.schedule.order.end(), is_in_turn))
    plan.as_run = simulate(plan.schedule, settings);
  return plan;
}

std::string plan_to_json(const Plan& plan) {
  std::string text;
  Out out(text);
  const Schedule& schedule = plan.schedule;
  out = fmt::format_to(
      out, "{{\n  \"schedule\": {},\n  \"rank_count\": {},\n  \"stages\": {},\n  \"microbatches\": {},\n",
      quoted(schedule.name), schedule.ranks, schedule.stage_count, schedule.microbatches);
  write_simulation(out, plan.published, "  ");
  text += ",\n  \"slots\": [";
  for (const RankPeaks& rank : schedule.peaks) {
    out = fmt::format_to(out, "{}\n    {{\"in_flight\": {}, \"stages\": [",
                         &rank == schedule.peaks.data() ? "" : ",", rank.in_flight);
    for (const StagePeaks& stage : rank.stages)
      out = fmt::format_to(out,
                           "{}{{\"stage\": {}, \"in_flight\": {}, \"activation\": {}, \"weight_work\": {}}}",
                           &stage == rank.stages.data() ? "" : ", ", stage.stage, stage.in_flight,
                           stage.activation_slots, stage.weight_slots);
    text += "]}";
  }
  text += "\n  ],\n  \"links\": [";
  for (const LinkTraffic& link : plan.published.links)
    out = fmt::format_to(out, "{}\n    {{\"from\": {}, \"to\": {}, \"messages\": {}, \"bytes\": {}}}",
                         &link == plan.published.links.data() ? "" : ",", link.from, link.to, link.messages,
                         link.bytes);
  text += "\n  ]";
  if (!plan.memory.empty()) {
    text += ",\n  \"memory\": {";
    for (const MemoryColumn& column : plan.memory)
      out = fmt::format_to(out, "{}\n    {}: [{}]", &column == plan.memory.data() ? "" : ",",
                           quoted(column.name), fmt::join(column.bytes, ", "));
    text += "\n  }";
  }
  if (!plan.peak_activation_bytes.empty())
    out = fmt::format_to(out, ",\n  \"peak_activation_bytes\": [{}]",
                         fmt::join(plan.peak_activation_bytes, ", "));
  if (plan.as_run) {
    text += ",\n  \"as_run\": {\n";
    write_simulation(out, *plan.as_run, "    ");
    text += "\n  }";
  }
  text += "\n}\n";
  return text;
}

std::string plan_to_csv(const Plan& plan) { return to_csv(plan.published.executed); }

std::string plan_to_chrome(const Plan& plan) {
  return to_chrome_trace(plan.run().events, fmt::format("weft plan: {}", plan.schedule.name),
                         plan.schedule.rank_of);
}

}  // namespace weft
