#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "weft/base/text/foreign_text.h"
#include "weft/scheduling/orders/order_text.h"
#include "weft/scheduling/plan/json_text.h"
#include "weft/scheduling/plan/op_means.h"
#include "weft/scheduling/plan/plan.h"

namespace weft {

namespace {

using Json = nlohmann::ordered_json;

Json rank_json(const Simulation& simulation, std::size_t rank) {
  const RankTimes& times = simulation.ranks[rank];
  return {{"order", to_cells(simulation.timeline[rank].order())},
          {"busy", in_units(times.busy)},
          {"span", in_units(times.span())},
          {"idle", in_units(simulation.makespan - times.busy - times.update)},
          {"bubble", times.bubble()},
          {"peak_in_flight", times.peak_in_flight},
          {"ramp_up", in_units(times.ramp_up)},
          {"dependency_wait", in_units(times.dependency_wait)},
          {"transfer_wait", in_units(times.transfer_wait)},
          {"cool_down", in_units(times.cool_down)},
          {"update", in_units(times.update)}};
}

void write_simulation(JsonText& json, const Simulation& simulation) {
  json.member("makespan", in_units(simulation.makespan));
  json.begin_list("ranks");
  for (std::size_t rank = 0; rank < simulation.ranks.size(); ++rank)
    json.element(rank_json(simulation, rank));
  json.end_list();
}

Json slots_json(const RankPeaks& rank) {
  Json stages = Json::array();
  for (const StagePeaks& stage : rank.stages)
    stages.push_back({{"stage", stage.stage},
                      {"in_flight", stage.in_flight},
                      {"activation", stage.activation_slots},
                      {"weight_work", stage.weight_slots}});
  return {{"in_flight", rank.in_flight}, {"stages", std::move(stages)}};
}

Json mean_json(const OpMean& mean) { return mean.count == 0 ? Json() : Json(in_units(mean.time())); }

}  // namespace

std::string plan_to_json(const Plan& plan) {
  const Schedule& schedule = plan.schedule;
  JsonText json;
  json.member("schedule", to_utf8(schedule.name));
  json.member("rank_count", schedule.ranks);
  json.member("stages", schedule.stage_count);
  json.member("microbatches", schedule.microbatches);
  json.member("early_gradient", plan.early_gradient);
  write_simulation(json, plan.published);
  json.begin_list("slots");
  for (const RankPeaks& rank : schedule.peaks) json.element(slots_json(rank));
  json.end_list();
  json.begin_list("links");
  for (const LinkTraffic& link : plan.published.links)
    json.element({{"from", link.from}, {"to", link.to}, {"messages", link.messages}, {"bytes", link.bytes}});
  json.end_list();
  if (!plan.layers.empty()) json.member("layers", plan.layers);
  if (!plan.memory.empty()) {
    json.begin_object("memory");
    for (const MemoryColumn& column : plan.memory) json.member(column.name, column.bytes);
    json.end_object();
  }
  if (!plan.peak_activation_bytes.empty()) json.member("peak_activation_bytes", plan.peak_activation_bytes);
  if (plan.as_run) {
    json.begin_object("as_run");
    write_simulation(json, *plan.as_run);
    json.end_object();
  }
  return json.finish();
}

std::string against_trace_to_json(const PlanAgainstTrace& both) {
  const Plan& plan = both.plan;
  JsonText json;
  json.member("schedule", to_utf8(plan.schedule.name));
  json.member("step", both.step);
  json.member("early_gradient", plan.early_gradient);
  json.begin_object("plan");
  write_simulation(json, plan.run());
  json.end_object();
  json.begin_object("run");
  write_simulation(json, both.run);
  json.end_object();
  json.begin_list("differences");
  for (const OpDifference& one : first_differences(plan.run(), both.run)) {
    const auto cell = [](const std::optional<Op>& op) { return op ? Json(to_string(*op)) : Json(); };
    json.element(
        {{"rank", one.rank}, {"op", one.position}, {"plan", cell(one.planned)}, {"run", cell(one.executed)}});
  }
  json.end_list();
  const std::vector<OpMeans> planned = op_means(plan.run(), plan.schedule.stage_count);
  const std::vector<OpMeans> run = op_means(both.run, plan.schedule.stage_count);
  json.begin_list("op_times");
  for (std::uint32_t stage = 0; stage < plan.schedule.stage_count; ++stage) {
    Json line{{"stage", stage}};
    constexpr std::array names{"F", "B", "I", "W"};
    for (std::size_t kind = 0; kind < names.size(); ++kind)
      line[names[kind]] = {{"plan", mean_json(planned[stage][kind])}, {"run", mean_json(run[stage][kind])}};
    json.element(line);
  }
  json.end_list();
  return json.finish();
}

}  // namespace weft
