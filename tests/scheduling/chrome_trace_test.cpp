#include "weft/scheduling/simulation/chrome_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "weft/base/error.h"
#include "weft/scheduling/plan/plan.h"
#include "weft/scheduling/simulation/trace_analysis.h"

namespace weft {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    (void)from_chrome_trace(text);
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "";
}

TEST(ChromeTrace, every_kind_of_event_survives_to_the_nanosecond) {
  const std::vector<TraceEvent> events{
      {1'234'567'890'123'456,
       1'234'567'890'123'957,
       {7, 3, OpKind::forward, true},
       1,
       1,
       TraceKind::executed,
       Phase::train},
      {1, 2, {0, 65535, OpKind::backward, false}, 0, 4'000'000'000u, TraceKind::executed, Phase::evaluate},
      {5, 9, {4'294'967'295u, 2, OpKind::backward_weight, false}, 4095, 2, TraceKind::held, Phase::train},
      {5, 9, {1, 2, OpKind::backward_input, false}, 2, 2, TraceKind::waiting, Phase::train},
      {5, 5, {1, 2, OpKind::backward_input, false}, 2, 2, TraceKind::arrived, Phase::train},
      {6, 6, {1, 2, OpKind::backward, false}, 2, 2, TraceKind::input_done, Phase::train},
      {0, 9, {}, 2, 2, TraceKind::update, Phase::train}};
  EXPECT_EQ(from_chrome_trace(to_chrome_trace(events, "a \"title\" \xff")).events, events);
}

TEST(ChromeTrace, arrivals_are_instants_and_arrows_join_the_two_ops_of_a_message) {
  SimulationSettings settings = uniform_costs(2, 2, 2, 0.5);
  for (const bool early : {false, true}) {
    settings.early_gradient = early;
    for (const char* name : {"1f1b", "zbv", "looped_bfs"}) {
      const Schedule schedule = make_schedule({.schedule = name, .ranks = 3, .microbatches = 4});
      const Simulation simulation = simulate(schedule, settings);
      const json file = json::parse(to_chrome_trace(simulation.events, name, schedule.rank_of));
      // what begins at a time on a rank, and what lasts over it
      const auto op_at = [&](const json& arrow, bool begins) {
        for (const TraceEvent& event : simulation.events) {
          const auto time = std::llround(arrow["ts"].get<double>() * 1000);
          if (event.kind == TraceKind::executed && event.rank == arrow["pid"] && event.start <= time &&
              time < event.end && (!begins || event.start == time))
            return event.op;
        }
        ADD_FAILURE() << arrow;
        return Op{};
      };
      std::map<std::string, std::pair<json, json>> arrows;
      std::size_t instants = 0;
      for (const json& line : file["traceEvents"]) {
        if (line["ph"] == "s") arrows[line["id"]].first = line;
        if (line["ph"] == "f") arrows[line["id"]].second = line;
        if (line["ph"] == "i") {
          EXPECT_FALSE(line.contains("dur"));
          instants += line["args"]["kind"] == "arrived";
        }
      }
      std::uint64_t messages = 0;
      for (const LinkTraffic& link : simulation.links) messages += link.messages;
      EXPECT_EQ(arrows.size(), messages) << name;
      EXPECT_EQ(instants, messages) << name;
      for (const auto& [id, ends] : arrows) {
        ASSERT_FALSE(ends.first.is_null() || ends.second.is_null()) << id;
        const Op from = op_at(ends.first, false);
        const Op to = op_at(ends.second, true);
        const bool forward = from.kind == OpKind::forward;
        EXPECT_EQ(to.kind == OpKind::forward, forward) << id;
        EXPECT_EQ(to.stage, forward ? from.stage + 1 : from.stage - 1) << id;
        EXPECT_EQ(to.microbatch, from.microbatch) << id;
        EXPECT_EQ(ends.second["bp"], "e");
      }
    }
  }
}

TEST(ChromeTrace, a_file_is_made_of_pieces_and_one_without_its_end_is_read_as_far_as_it_goes) {
  const std::vector<TraceEvent> events =
      simulate(make_schedule({.schedule = "1f1b", .ranks = 1, .microbatches = 3}), {}).events;
  ChromeTraceLines lines({});
  std::string part = "[";
  lines.add_facts({{"hidden_size", "64"}, {"dtype", "float32"}});
  lines.add_rank(0);
  for (const TraceEvent& event : events) {
    part += lines.take();
    lines.add(event);
  }
  part += lines.take();
  for (const std::string& text : {part, part + "]", part + ",\n{\"ph\":\"X\",\"cat", part + ",\n{\"a\":1}",
                                  chrome_trace_head("t") + part.substr(1) + chrome_trace_tail()}) {
    const Trace trace = from_chrome_trace(text);
    EXPECT_EQ(trace.events, events) << text;
    EXPECT_EQ(trace.facts, (TraceFacts{{"hidden_size", "64"}, {"dtype", "float32"}}));
  }
}

TEST(ChromeTrace, events_of_other_programs_are_passed_over) {
  EXPECT_TRUE(from_chrome_trace(R"([{"ph":"X","name":"x","ts":1}, 3, {"cat":"gpu"}])").events.empty());
}

TEST(ChromeTrace, junk_is_a_schedule_error) {
  for (const char* text : {"", "{", "3", "{}", "{\"traceEvents\":3x}", "\xff\xfe", "[\xff", "[{",
                           R"([{"cat":"weft"}])", R"([{"cat":3}])"})
    EXPECT_THROW((void)from_chrome_trace(text), ScheduleError) << text;
}

TEST(ChromeTrace, a_crafted_event_is_refused_by_its_number_name_and_field) {
  const json good = json::parse(R"({"ph":"X","cat":"weft","name":"3F1","pid":0,"ts":5,"dur":2,
      "args":{"kind":"executed","step":1,"phase":"train","stage":3,"op":"F","microbatch":1}})");
  const auto with = [&](const char* place, const json& value) {
    json event = good;
    event[json::json_pointer(place)] = value;
    return refusal(json{3, event}.dump());
  };
  ASSERT_EQ(with("/pid", 1), "");
  EXPECT_EQ(with("/ts", -1.5),
            "trace: event 2 (\"3F1\"): ts: is -1.5; allowed: 0 to 1000000000000000 microseconds");
  EXPECT_THAT(with("/ts", 1e300), HasSubstr("event 2 (\"3F1\"): ts: is 1e+300"));
  EXPECT_THAT(with("/dur", -0.001), HasSubstr("dur: is -0.001; allowed: 0 to"));
  EXPECT_THAT(with("/dur", 1.1e15), HasSubstr("dur: is 1.1e+15"));
  EXPECT_THAT(with("/ts", "now"), HasSubstr("ts: is no number"));
  EXPECT_THAT(with("/pid", -1), HasSubstr("pid: is -1; allowed: 0 to 4294967295"));
  EXPECT_THAT(with("/pid", 0.5), HasSubstr("pid: is 0.5"));
  EXPECT_THAT(with("/args/stage", 65536), HasSubstr("stage: is 65536; allowed: 0 to 65535"));
  EXPECT_THAT(with("/args/microbatch", 1ull << 32), HasSubstr("microbatch: is 4294967296"));
  EXPECT_THAT(with("/args/step", json::array()), HasSubstr("step: is []"));
  EXPECT_THAT(with("/args/op", "X"), HasSubstr("op: is none of F, B, I, W"));
  EXPECT_THAT(with("/args/kind", 7), HasSubstr("kind: is none of executed, held"));
  EXPECT_THAT(with("/args/phase", "night"), HasSubstr("phase: is none of train, evaluate"));
  EXPECT_THAT(with("/args", 7), HasSubstr("kind: is missing"));
  json nameless = good;
  nameless.erase("name");
  nameless["ts"] = -1;
  EXPECT_THAT(refusal(json{nameless}.dump()), HasSubstr("event 1 (no name): ts"));
  json list = json::array();
  for (int i = 0; i < 3; ++i) list.push_back(good), list.back()["dur"] = 4e14;
  EXPECT_THAT(refusal(list.dump()), HasSubstr("event 3 (\"3F1\"): dur: all durations together"));
}

// Whatever a file says, the end is a plan beside it or a ScheduleError: values of fields are changed at
// random.
TEST(ChromeTrace, crafted_events_end_in_a_comparison_or_a_schedule_error) {
  const Plan plan = make_plan(make_schedule({.schedule = "zbv", .ranks = 2, .microbatches = 3}),
                              uniform_costs(1, 1, 1, 0.5));
  const json good = json::parse(plan_to_chrome(plan));
  const json values{-1,
                    0,
                    1,
                    2,
                    3,
                    0.5,
                    1e15,
                    -1e15,
                    1e18,
                    1e308,
                    65535,
                    16777216,
                    4294967295u,
                    UINT64_MAX,
                    "F",
                    "B",
                    "executed",
                    "",
                    nullptr,
                    true,
                    json::array(),
                    json::object(),
                    "input_done",
                    "evaluate"};
  const char* fields[] = {"/ts",
                          "/dur",
                          "/pid",
                          "/ph",
                          "/cat",
                          "/name",
                          "/args/kind",
                          "/args/stage",
                          "/args/op",
                          "/args/step",
                          "/args/microbatch",
                          "/args"};
  std::mt19937 random(7);
  const auto below = [&](std::size_t end) { return random() % end; };
  int compared = 0;
  for (int round = 0; round < 3000; ++round) {
    json file = good;
    json& events = file["traceEvents"];
    for (std::size_t change = 0; change <= below(3); ++change) {
      json& event = events[below(events.size())];
      if (below(8) == 0) {
        event = values[below(values.size())];
      } else if (event.is_object()) {
        const json::json_pointer place(fields[below(std::size(fields))]);
        if (!place.parent_pointer().empty() && !event["args"].is_object()) event["args"] = json::object();
        event[place] = values[below(values.size())];
      }
    }
    try {
      const Trace trace = from_chrome_trace(file.dump());
      const PlanAgainstTrace both = lay_against_trace(plan, trace.events, 0);
      (void)against_trace_to_text(both, 100);
      EXPECT_TRUE(json::accept(against_trace_to_json(both)));
      ++compared;
      SimulationSettings settings;
      settings.stages = measure_costs(trace.events).stages;
      settings.early_gradient = true;
      (void)make_plan(make_schedule({.schedule = "zbv", .ranks = 2, .microbatches = 3}), settings);
    } catch (const ScheduleError&) {
    }
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace weft
