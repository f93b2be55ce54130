#include "weft/scheduling/simulation/simulator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "golden.h"
#include "weft/base/error.h"

namespace weft {
namespace {

constexpr Nanoseconds unit = 1'000'000;

Nanoseconds units(const std::string& text) {
  return std::llround(std::stod(text) * static_cast<double>(unit));
}
double in_units(Nanoseconds time) { return static_cast<double>(time) / static_cast<double>(unit); }

Nanoseconds largest_span(const Simulation& simulation) {
  Nanoseconds largest = 0;
  for (const RankTimes& rank : simulation.ranks) largest = std::max(largest, rank.span());
  return largest;
}

double idle_fraction(const Simulation& simulation) {
  double idle = 0;
  for (const RankTimes& rank : simulation.ranks) idle += static_cast<double>(simulation.makespan - rank.busy);
  return idle / static_cast<double>(simulation.makespan) / static_cast<double>(simulation.ranks.size());
}

std::string peaks_of(const Simulation& simulation) {
  std::string text;
  for (const RankTimes& rank : simulation.ranks) text += std::to_string(rank.peak_in_flight) + " ";
  text.pop_back();
  return text;
}

Schedule make(std::map<std::string, std::string>& row, const std::string& name) {
  return make_schedule({.schedule = golden::schedule_of(name),
                        .ranks = golden::number(row["p"]),
                        .chunks = golden::number(row["v"]),
                        .microbatches = golden::number(row["m"])});
}

TEST(Simulator, reproduces_the_golden_metrics) {
  for (const auto& [file, key] :
       {std::pair("metrics.csv", "file"), std::pair("orders_more_metrics.csv", "schedule")})
    for (auto& row : golden::table(file)) {
      const Simulation simulation = simulate_published(make(row, row[key]), {});
      EXPECT_NEAR(in_units(simulation.makespan), std::stod(row["makespan"]), 1e-6) << row[key] << row["m"];
      for (const RankTimes& rank : simulation.ranks)
        EXPECT_NEAR(in_units(rank.busy), std::stod(row["busy_per_rank"]), 1e-6);
      EXPECT_NEAR(in_units(largest_span(simulation)), std::stod(row["max_rank_span"]), 1e-6) << row[key];
      EXPECT_EQ(peaks_of(simulation), row["peak_chunk_activations_per_rank"]) << row[key] << row["m"];
      if (row.contains("idle_fraction_of_makespan")) {
        EXPECT_NEAR(idle_fraction(simulation), std::stod(row["idle_fraction_of_makespan"]), 1e-6) << row[key];
      }
    }
}

TEST(Simulator, reproduces_the_golden_sweep_over_costs) {
  for (auto& row : golden::table("metrics_sweep.csv")) {
    std::map<std::string, std::string> shape;
    for (auto& known : golden::table("metrics.csv"))
      if (known["file"] == row["file"]) shape = known;
    SimulationSettings settings;
    settings.stages = {{units(row["F"]), units(row["I"]), units(row["W"]), 0}};
    settings.link.latency = units(row["comm"]);
    const Simulation simulation = simulate_published(make(shape, row["file"]), settings);
    const std::string which = row["file"] + " " + row["F"] + " " + row["comm"];
    EXPECT_NEAR(in_units(simulation.makespan), std::stod(row["makespan"]), 1e-6) << which;
    EXPECT_NEAR(in_units(largest_span(simulation)), std::stod(row["max_rank_span"]), 1e-6) << which;
    EXPECT_NEAR(idle_fraction(simulation), std::stod(row["sum_idle_over_p_makespan"]), 1e-6) << which;
  }
}

TEST(Simulator, reproduces_the_bubble_rates_of_the_zero_bubble_paper) {
  const std::map<std::string, std::string> columns{
      {"1f1b", "bubble_1F1B"}, {"zb_h1", "bubble_ZB_H1"}, {"zb_h2", "bubble_ZB_H2"}};
  for (auto& row : golden::table("zb_iclr_bubble_rates.csv"))
    for (const auto& [name, column] : columns) {
      SimulationSettings settings;
      settings.stages = {{units(row["F_ms"]), units(row["I_ms"]), units(row["W_ms"]), 0}};
      settings.link.latency = units(row["comm_ms"]);
      const std::uint32_t m = golden::number(row["m"]);
      const Simulation simulation = simulate_published(
          make_schedule({.schedule = name, .ranks = golden::number(row["p"]), .microbatches = m}), settings);
      const auto span = static_cast<double>(largest_span(simulation));
      const auto work = static_cast<double>(
          m * (settings.stages[0].forward + settings.stages[0].input + settings.stages[0].weight));
      EXPECT_NEAR((span - work) / span, std::stod(row[column]), 5e-5)
          << name << " p=" << row["p"] << " m=" << m;
    }
}

TEST(Simulator, v_half_and_v_min_are_as_short_as_published) {
  const auto at = [](const char* name, std::uint32_t p, std::uint32_t m) {
    return in_units(
        simulate_published(make_schedule({.schedule = name, .ranks = p, .microbatches = m}), {}).makespan);
  };
  EXPECT_LE(at("v_half", 4, 8), 53);
  EXPECT_LE(at("v_min", 4, 8), 59);
  EXPECT_LE(at("v_half", 8, 16), 113);
  EXPECT_LE(at("v_min", 8, 16), 123);
  EXPECT_LE(at("v_half", 6, 18), 121);
  EXPECT_LE(at("v_min", 6, 18), 125);
}

TEST(Simulator, ranks_share_few_cores_evenly) {
  // p = 2, m = 1 leaves one rank at work at any time: one core is enough.
  const Schedule alone = make_schedule({.schedule = "afab", .ranks = 2, .microbatches = 1});
  SimulationSettings settings;
  const Nanoseconds expected = simulate(alone, settings).makespan;
  settings.cores = 1;
  EXPECT_EQ(simulate(alone, settings).makespan, expected);
  // With cores for all nothing changes; with one, it is never idle where the order leaves work at any time.
  for (const char* name : {"afab", "1f1b", "zbv"}) {
    const Schedule schedule = make_schedule({.schedule = name, .ranks = 4, .microbatches = 8});
    settings.cores = 0;
    const Simulation free = simulate(schedule, settings);
    settings.cores = 4;
    EXPECT_EQ(simulate(schedule, settings).makespan, free.makespan) << name;
    EXPECT_EQ(simulate(schedule, settings).executed, free.executed) << name;
    settings.cores = 1;
    const Nanoseconds work = 8 * 3 * static_cast<Nanoseconds>(schedule.stage_count) * unit;
    EXPECT_NEAR(static_cast<double>(simulate(schedule, settings).makespan), static_cast<double>(work), 1000)
        << name;
  }
}

}  // namespace
}  // namespace weft
