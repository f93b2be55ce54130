#include "weft/scheduling/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "golden.h"
#include "weft/base/error.h"
#include "weft/scheduling/orders/check.h"
#include "weft/scheduling/simulation/chrome_trace.h"
#include "weft/scheduling/simulation/trace_analysis.h"

namespace weft {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

Plan plan_of(const std::string& name, std::uint32_t p, std::uint32_t m, double latency = 0) {
  return make_plan(make_schedule({.schedule = name, .ranks = p, .microbatches = m}),
                   uniform_costs(1, 1, 1, latency));
}

TEST(Plan, json_holds_the_golden_metrics_and_cells) {
  for (auto& row : golden::table("metrics.csv")) {
    const Schedule schedule = make_schedule({.schedule = golden::path(row["file"])});
    const json plan = json::parse(plan_to_json(make_plan(schedule, uniform_costs(1, 1, 1, 0))));
    EXPECT_NEAR(plan["makespan"].get<double>(), std::stod(row["makespan"]), 1e-6) << row["file"];
    double idle = 0;
    double span = 0;
    std::string peaks;
    std::string csv;
    for (const json& rank : plan["ranks"]) {
      EXPECT_NEAR(rank["busy"].get<double>(), std::stod(row["busy_per_rank"]), 1e-6);
      idle += rank["idle"].get<double>();
      span = std::max(span, rank["span"].get<double>());
      peaks += std::to_string(rank["peak_in_flight"].get<int>()) + " ";
      for (const json& cell : rank["order"]) csv += cell.get<std::string>() + ",";
      csv.back() = '\n';
    }
    peaks.pop_back();
    EXPECT_NEAR(span, std::stod(row["max_rank_span"]), 1e-6);
    EXPECT_NEAR(idle / plan["makespan"].get<double>() / schedule.ranks,
                std::stod(row["idle_fraction_of_makespan"]), 1e-6);
    EXPECT_EQ(peaks, row["peak_chunk_activations_per_rank"]);
    EXPECT_EQ(csv, to_csv(schedule.order));
    EXPECT_EQ(plan.contains("as_run"), row["file"].starts_with("loopedbfs"));
  }
}

TEST(Plan, json_shows_what_a_run_holds) {
  const Plan plan = plan_of("looped_bfs", 2, 2);
  const json as_run = json::parse(plan_to_json(plan))["as_run"];
  EXPECT_THAT(as_run["ranks"][1]["order"].dump(), HasSubstr(R"("3I1","3B0","3W1","1I1","1B0","1W1")"));
  EXPECT_EQ(&plan.run(), &*plan.as_run);
}

TEST(Plan, the_time_of_every_rank_is_split_without_a_remainder) {
  for (const ScheduleInfo& info : all_schedules()) {
    const Plan plan = plan_of(std::string(info.name), 4, 9, 0.7);
    for (const RankTimes& rank : plan.run().ranks) {
      EXPECT_EQ(
          rank.busy + rank.update + rank.ramp_up + rank.dependency_wait + rank.transfer_wait + rank.cool_down,
          plan.run().makespan)
          << info.name;
      EXPECT_EQ(rank.span() - rank.busy, rank.dependency_wait + rank.transfer_wait);
    }
  }
}

TEST(Plan, waits_are_split_into_dependency_and_transfer) {
  // rank 0: F0 at 0..1; rank 1 gets it at 3, F0 B0 until 6; rank 0 gets the gradient at 8
  const RankTimes rank = plan_of("1f1b", 2, 1, 2).published.ranks[0];
  EXPECT_EQ(rank.dependency_wait, 5 * cost_unit);
  EXPECT_EQ(rank.transfer_wait, 2 * cost_unit);
  EXPECT_EQ(plan_of("1f1b", 2, 1, 2).published.ranks[1].ramp_up, 3 * cost_unit);
}

TEST(Plan, a_link_takes_its_messages_one_after_another) {
  Schedule schedule = make_schedule({.schedule = "afab", .ranks = 2, .microbatches = 4});
  SimulationSettings settings = uniform_costs(1, 1, 1, 0);
  settings.border_bytes = {3'000'000};
  settings.link.bytes_per_second = 1e9;  // 3 units a message
  const Simulation simulation = simulate(schedule, settings);
  EXPECT_EQ(simulation.ranks[1].ramp_up, 4 * cost_unit);
  EXPECT_EQ(simulation.ranks[1].transfer_wait, 6 * cost_unit);
  ASSERT_EQ(simulation.links.size(), 2u);
  EXPECT_EQ(simulation.links[0].messages, 4u);
  EXPECT_EQ(simulation.links[0].bytes, 12'000'000u);
  settings.links = {{0, 1, {}}};
  EXPECT_EQ(simulate(schedule, settings).ranks[1].transfer_wait, 0);
}

TEST(Plan, a_sender_without_credit_waits) {
  const Schedule schedule = make_schedule({.schedule = "afab", .ranks = 2, .microbatches = 4});
  SimulationSettings settings = uniform_costs(1, 1, 1, 0);
  settings.credits = 4;
  EXPECT_EQ(simulate(schedule, settings).makespan, simulate(schedule, uniform_costs(1, 1, 1, 0)).makespan);
  settings.credits = 1;  // a received activation is kept until its backward: AFAB cannot go on
  EXPECT_THROW((void)simulate(schedule, settings), ScheduleError);
  settings.phase = Phase::evaluate;
  EXPECT_EQ(simulate(schedule, settings).makespan, 8 * cost_unit) << "F on both ranks in turn";
}

TEST(Plan, an_early_gradient_shortens_the_ramp_down) {
  const Schedule schedule = make_schedule({.schedule = "1f1b", .ranks = 4, .microbatches = 8});
  SimulationSettings settings = uniform_costs(1, 1, 1, 0);
  EXPECT_EQ(simulate(schedule, settings).makespan, 33 * cost_unit);
  settings.early_gradient = true;
  EXPECT_EQ(simulate(schedule, settings).makespan, 30 * cost_unit);
}

TEST(Plan, the_update_begins_when_the_norm_is_known) {
  SimulationSettings settings = uniform_costs(1, 1, 1, 0.5);
  settings.stages[0].update = 2 * cost_unit;
  const Simulation without = simulate_published(
      make_schedule({.schedule = "1f1b", .ranks = 2, .microbatches = 2}), uniform_costs(1, 1, 1, 0.5));
  const Simulation with =
      simulate_published(make_schedule({.schedule = "1f1b", .ranks = 2, .microbatches = 2}), settings);
  EXPECT_EQ(with.makespan, without.makespan + 3 * cost_unit);
}

TEST(Plan, text_shows_the_timeline_and_the_slots) {
  const std::string text = plan_to_text(plan_of("1f1b", 2, 3), 100);
  EXPECT_THAT(text, HasSubstr("rank 0  F0 F1 ......B0    F2 B1    ...B2"));
  EXPECT_THAT(text, HasSubstr("makespan 12"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(plan_to_coloured_text(plan_of("1f1b", 2, 3), 100), HasSubstr("\x1b[30;104mF0 \x1b[0m"));
  const std::string narrow = plan_to_text(plan_of("1f1b", 4, 200), 60);
  std::istringstream lines(narrow);
  std::string line;
  while (std::getline(lines, line))
    if (line.starts_with("rank ") && line.find("busy") == std::string::npos) {
      EXPECT_LE(line.size(), 60u);
    }
}

TEST(Plan, svg_csv_and_chrome_show_every_op) {
  const Plan plan = plan_of("zbv", 4, 8);
  const std::string svg = plan_to_svg(plan);
  EXPECT_THAT(svg, HasSubstr("<title>7W7: "));
  EXPECT_TRUE(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
  EXPECT_EQ(plan_to_csv(plan), to_csv(read_order_file(golden::path("zbv_p4_m8.csv")).order));
  EXPECT_EQ(from_chrome_trace(plan_to_chrome(plan)).events, plan.run().events);
}

TEST(Plan, comparison_marks_the_shortest_within_the_limit_and_says_what_is_impossible) {
  const auto maker = plan_maker({.schedule = {}, .ranks = 4, .microbatches = 6}, uniform_costs(1, 1, 1, 0));
  const auto schedules = compare_schedules([&](const std::string& name) {
    Plan plan = maker(name);
    std::vector<std::uint64_t> bytes;
    for (const RankPeaks& peaks : plan.schedule.peaks)
      bytes.push_back(peaks.in_flight * (1u << 20) / plan.schedule.stages_of[0].size());
    plan.memory = {{"activations", bytes}};
    return plan;
  });
  EXPECT_EQ(schedules.size(), all_schedules().size());
  const std::string free = comparison_to_text(schedules, 0);
  EXPECT_THAT(free, testing::ContainsRegex("\\* +zbv"));
  EXPECT_THAT(free, HasSubstr("dualpipe_v: dualpipe_v needs at least 2p micro-batches"));
  const std::string limited = comparison_to_text(schedules, 3u << 20);
  EXPECT_THAT(limited, testing::ContainsRegex("\\* +v_half"));
  EXPECT_THAT(limited, testing::ContainsRegex("! +afab"));
  EXPECT_THAT(comparison_to_text(schedules, 1), HasSubstr("no schedule fits"));
  EXPECT_THAT(free, HasSubstr("\nmean bubble: idle share of the time between a rank's first and last op"));

  const json all = json::parse(comparison_to_json(schedules, 3u << 20));
  EXPECT_EQ(all["shortest"], "v_half");
  EXPECT_EQ(all["memory_limit"], 3u << 20);
  ASSERT_EQ(all["schedules"].size(), schedules.size());
  for (std::size_t i = 0; i < schedules.size(); ++i) {
    const json& one = all["schedules"][i];
    EXPECT_EQ(one["schedule"], schedules[i].name);
    EXPECT_EQ(one.contains("refused"), !schedules[i].plan);
    if (!schedules[i].plan) continue;
    const Simulation& run = schedules[i].plan->run();
    EXPECT_EQ(one["makespan"].get<double>(), static_cast<double>(run.makespan) / 1e6);
    double bubble = 0;
    for (const RankTimes& rank : run.ranks) bubble += rank.bubble() / 4;
    EXPECT_DOUBLE_EQ(one["mean_bubble"].get<double>(), bubble);
    EXPECT_EQ(one["fits"], one["memory"] <= 3u << 20);
  }
  EXPECT_TRUE(json::parse(comparison_to_json(schedules, 1))["shortest"].is_null());
}

TEST(Plan, a_comparison_takes_orders_from_files) {
  const auto maker = plan_maker({.schedule = {}, .ranks = 4, .microbatches = 8}, uniform_costs(6, 6, 6, 0));
  const std::vector<std::string> files{golden::path("zbv_p4_m8.csv"), golden::path("zbh2_p4_m8.csv"),
                                       golden::path("interleaved1f1b_p4_v2_m10.csv"), "absent.csv"};
  const auto schedules = compare_schedules(maker, files);
  ASSERT_EQ(schedules.size(), all_schedules().size() + files.size());
  const auto named = [&](const std::string& name) -> const ComparedSchedule& {
    for (const ComparedSchedule& one : schedules)
      if (one.name == name) return one;
    return schedules.front();
  };
  EXPECT_EQ(named(files[0]).plan->run().makespan, named("zbv").plan->run().makespan)
      << "stages of half the cost";
  EXPECT_EQ(named(files[1]).plan->run().makespan, named("zb_h2").plan->run().makespan);
  EXPECT_THAT(named(files[2]).refused, HasSubstr("the file is for 10 micro-batches, but there are 8"));
  EXPECT_THAT(named(files[3]).refused, HasSubstr("cannot be read"));
}

TEST(Plan, says_when_the_gradient_of_a_backward_leaves) {
  const Schedule schedule = make_schedule({.schedule = "1f1b", .ranks = 4, .microbatches = 8});
  SimulationSettings settings = uniform_costs(1, 1, 1, 0);
  const Plan published = make_plan(schedule, settings);
  settings.early_gradient = true;
  const Plan as_in_a_run = make_plan(schedule, settings);
  EXPECT_THAT(plan_to_text(published, 80), HasSubstr("leaves at its end, as published"));
  EXPECT_THAT(plan_to_text(as_in_a_run, 80), HasSubstr("leaves after its I half, as in a run"));
  EXPECT_EQ(json::parse(plan_to_json(published))["early_gradient"], false);
  const json run = json::parse(plan_to_json(as_in_a_run));
  EXPECT_EQ(run["early_gradient"], true);
  EXPECT_EQ(run["makespan"], 30);
}

TEST(Plan, what_is_not_kept_changes_nothing_else) {
  for (const ScheduleInfo& info : all_schedules()) {
    const ScheduleRequest request{.schedule = std::string(info.name), .ranks = 3, .microbatches = 7};
    SimulationSettings settings = uniform_costs(1, 2, 3, 0.5);
    const Plan whole = make_plan(make_schedule(request), settings);
    for (const Record record : {Record::timeline, Record::nothing}) {
      settings.record = record;
      const Plan plan = make_plan(make_schedule(request), settings);
      EXPECT_EQ(plan.run().makespan, whole.run().makespan) << info.name;
      EXPECT_TRUE(plan.run().events.empty());
      if (record == Record::nothing) continue;
      EXPECT_EQ(plan_to_text(plan, 100), plan_to_text(whole, 100)) << info.name;
      EXPECT_EQ(plan_to_json(plan), plan_to_json(whole));
      EXPECT_EQ(plan_to_csv(plan), plan_to_csv(whole));
      for (std::uint32_t rank = 0; rank < 3; ++rank)
        EXPECT_EQ(plan.run().timeline[rank].order(), whole.run().executed[rank]);
    }
  }
}

TEST(Plan, a_comparison_keeps_to_the_stages_and_pairs_in_flight_that_are_asked_for) {
  const ScheduleRequest request{
      .schedule = {}, .ranks = 4, .chunks = 2, .microbatches = 8, .max_in_flight = 6};
  const auto schedules = compare_schedules(plan_maker(request, uniform_costs(2, 2, 2, 0)));
  for (const ComparedSchedule& one : schedules) {
    if (!one.plan) continue;
    EXPECT_EQ(one.plan->schedule.stages_of[0].size(), 2u) << one.name;
    EXPECT_LE(smallest_slots(one.plan->schedule), 6u) << one.name;
    EXPECT_EQ(one.plan->run().ranks[0].busy, 48 * cost_unit) << one.name;
  }
  EXPECT_FALSE(schedules[1].plan) << "1f1b has one stage per rank";
  EXPECT_TRUE(schedules[8].plan) << "v_half";
  EXPECT_FALSE(schedules[6].plan) << "zbv needs more in flight";
}

TEST(Plan, costs_that_rounding_would_change_are_refused) {
  EXPECT_EQ(uniform_costs(0.001, 0, 1e9, 0).stages[0].forward, 1000);
  for (const double cost : {1e-7, 0.000999, -1.0, 1.1e9, std::nan("")})
    for (int place = 0; place < 4; ++place) {
      double costs[] = {1, 1, 1, 1};
      costs[place] = cost;
      EXPECT_THROW((void)uniform_costs(costs[0], costs[1], costs[2], costs[3]), ScheduleError) << cost;
    }
  try {
    (void)uniform_costs(1e-7, 1e-7, 1e-7, 0);
  } catch (const ScheduleError& error) {
    EXPECT_THAT(
        error.what(),
        HasSubstr("cost of F is 1e-07; allowed: 0, or 0.001 to 1e9; give all costs in a smaller unit"));
  }
}

TEST(Plan, costs_that_together_leave_the_clock_are_refused) {
  const Schedule schedule = make_schedule({.schedule = "1f1b", .ranks = 2, .microbatches = 3000});
  EXPECT_GT(make_plan(schedule, uniform_costs(1e8, 1e8, 1e8, 1e8)).published.makespan, 0);
  EXPECT_THROW((void)make_plan(schedule, uniform_costs(1e9, 1e9, 1e9, 0)), ScheduleError);
  EXPECT_THROW((void)make_plan(schedule, uniform_costs(1, 1, 1, 1e9)), ScheduleError);
}

TEST(Plan, a_name_that_is_no_text_leaves_svg_and_json_whole) {
  Plan plan = plan_of("1f1b", 2, 2);
  const std::pair<const char*, const char*> names[] = {
      {"gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80.csv",
       "gr\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80.csv"},
      {"a\xff"
       "b",
       "a\xef\xbf\xbd"
       "b"},                                                                     // never in UTF-8
      {"\xc3(", "\xef\xbf\xbd("},                                                // cut off
      {"\xe2\x82", "\xef\xbf\xbd"},                                              // cut off at the end
      {"\xc0\xaf", "\xef\xbf\xbd\xef\xbf\xbd"},                                  // longer than it need be
      {"\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},                  // half a surrogate pair
      {"\xf4\x90\x80\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"},  // past the last character
  };
  for (const auto& [name, shown] : names) {
    plan.schedule.name = name;
    EXPECT_THAT(plan_to_svg(plan), HasSubstr(">" + std::string(shown) + ": 2 ranks"));
    EXPECT_EQ(json::parse(plan_to_json(plan))["schedule"], shown);
    EXPECT_NO_THROW((void)from_chrome_trace(plan_to_chrome(plan)));
  }
  plan.schedule.name = "\xef\xbf\xbe";  // no character in XML
  EXPECT_THAT(plan_to_svg(plan), HasSubstr(">\xef\xbf\xbd: 2 ranks"));
  plan.schedule.name = "<]]>&\x1b\n";
  EXPECT_THAT(plan_to_svg(plan), HasSubstr(">&lt;]]&gt;&amp;: 2 ranks"));
}

TEST(Plan, against_a_trace_the_differences_are_shown) {
  const Plan plan = plan_of("1f1b", 2, 3, 0.5);
  std::vector<TraceEvent> trace = plan.run().events;
  for (TraceEvent& event : trace) {
    event.step = 7;
    event.start += 1000;
    event.end += 1000;
  }
  const auto text_of = [&](const Plan& beside, std::uint32_t step) {
    return against_trace_to_text(lay_against_trace(beside, trace, step), 100);
  };
  const std::string same = text_of(plan, 0);
  EXPECT_THAT(same, HasSubstr("step 7 of the trace"));
  EXPECT_THAT(same, HasSubstr("Every rank executed the planned order."));

  const Plan other = plan_of("afab", 2, 3, 0.5);
  EXPECT_THAT(text_of(other, 7), HasSubstr("rank 0: op 3 is 0F2 in the plan, 0B0 in the run"));
  const json both = json::parse(against_trace_to_json(lay_against_trace(other, trace, 7)));
  EXPECT_EQ(both["step"], 7);
  EXPECT_EQ(both["differences"][0], (json{{"rank", 0}, {"op", 3}, {"plan", "0F2"}, {"run", "0B0"}}));
  EXPECT_EQ(both["run"]["makespan"], json::parse(plan_to_json(plan))["makespan"]);
  EXPECT_EQ(both["run"]["ranks"], json::parse(plan_to_json(plan))["ranks"]);
  EXPECT_EQ(both["plan"]["ranks"], json::parse(plan_to_json(other))["ranks"]);
  EXPECT_EQ(both["op_times"][1]["B"], (json{{"plan", 2.0}, {"run", 2.0}}));
  EXPECT_TRUE(both["op_times"][1]["W"]["run"].is_null());
  EXPECT_TRUE(json::parse(against_trace_to_json(lay_against_trace(plan, trace, 7)))["differences"].empty());
  EXPECT_THROW((void)text_of(plan, 8), ScheduleError);
  EXPECT_THROW((void)lay_against_trace(plan, {}, 0), ScheduleError);
  EXPECT_THROW((void)text_of(plan_of("1f1b", 3, 3), 0), ScheduleError);
  EXPECT_THROW((void)text_of(plan_of("afab", 1, 3), 0), ScheduleError);
  EXPECT_THROW((void)text_of(plan_of("interleaved_1f1b", 2, 3), 0), ScheduleError)
      << "whose stages 2 and 3 the trace lacks";
  EXPECT_THROW((void)text_of(plan_of("1f1b", 2, 4), 0), ScheduleError);
}

TEST(Plan, a_trace_is_measured_in_the_words_of_the_simulator) {
  for (const ScheduleInfo& info : all_schedules()) {
    SimulationSettings settings = uniform_costs(1, 1, 1, 0.5);
    settings.early_gradient = info.dynamic;
    const Plan plan = make_plan(
        make_schedule({.schedule = std::string(info.name), .ranks = 3, .microbatches = 7}), settings);
    const Simulation& run = plan.run();
    const Simulation measured = measure_step(events_of_step(run.events, 1), 3);
    EXPECT_EQ(measured.executed, run.executed);
    EXPECT_EQ(measured.makespan, run.makespan);
    for (std::size_t rank = 0; rank < 3; ++rank) {
      EXPECT_EQ(measured.ranks[rank].busy, run.ranks[rank].busy);
      EXPECT_EQ(measured.ranks[rank].dependency_wait, run.ranks[rank].dependency_wait) << info.name;
      EXPECT_EQ(measured.ranks[rank].transfer_wait, run.ranks[rank].transfer_wait);
      EXPECT_EQ(measured.ranks[rank].cool_down, run.ranks[rank].cool_down);
      EXPECT_EQ(measured.ranks[rank].peak_in_flight, run.ranks[rank].peak_in_flight);
    }
  }
}

TEST(Plan, costs_come_back_from_a_trace) {
  for (const ScheduleInfo& info : all_schedules()) {
    const Schedule schedule =
        make_schedule({.schedule = std::string(info.name), .ranks = 3, .microbatches = 7});
    SimulationSettings settings;
    settings.early_gradient = true;
    settings.link.latency = 40;
    settings.stages.clear();
    for (std::uint32_t stage = 0; stage < schedule.stage_count; ++stage)
      settings.stages.push_back({1000 + stage, 2000 + 10 * stage, 500 + stage, 60});
    std::vector<TraceEvent> trace;
    for (std::uint32_t step = 1; step <= 3; ++step)
      for (TraceEvent event : simulate(schedule, settings).events) {
        event.step = step;
        if (step == 1) event.end = event.start + 3 * (event.end - event.start);  // a cold first step
        trace.push_back(event);
      }
    const MeasuredCosts costs = measure_costs(trace);
    ASSERT_EQ(costs.stages.size(), schedule.stage_count) << info.name;
    EXPECT_EQ(costs.latency, 40) << info.name;
    EXPECT_EQ(costs.rank_of, schedule.rank_of) << info.name;
    for (std::uint32_t stage = 0; stage < schedule.stage_count; ++stage) {
      EXPECT_EQ(costs.stages[stage].forward, settings.stages[stage].forward) << info.name;
      EXPECT_EQ(costs.stages[stage].input, settings.stages[stage].input) << info.name;
      EXPECT_EQ(costs.stages[stage].weight, settings.stages[stage].weight) << info.name;
      EXPECT_EQ(costs.stages[stage].update, settings.stages[stage].update) << info.name;
    }
    EXPECT_THROW((void)measure_costs(std::span(trace).first(1)), ScheduleError);
    for (TraceEvent& event : trace) event.rank = UINT32_MAX - event.rank;  // as a file may say
    std::vector<std::uint32_t> renumbered = schedule.rank_of;
    for (std::uint32_t& rank : renumbered) rank = schedule.ranks - 1 - rank;
    EXPECT_EQ(measure_costs(trace).rank_of, renumbered) << info.name;
    for (TraceEvent& event : trace)
      if (event.step == 3) event.rank = 7;
    EXPECT_THROW((void)measure_costs(trace), ScheduleError) << "a stage on two ranks";
  }
  EXPECT_THROW((void)measure_costs({}), ScheduleError);
}

}  // namespace
}  // namespace weft
