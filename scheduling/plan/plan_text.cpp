#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "weft/scheduling/plan/plan.h"
#include "weft/scheduling/plan/text_table.h"

namespace weft {

namespace {

std::string stage_list(const std::vector<std::uint16_t>& stages) {
  std::string text;
  for (const std::uint16_t stage : stages) {
    if (!text.empty()) text += ' ';
    text += std::to_string(stage);
  }
  return text;
}

std::string headline(const Simulation& simulation) {
  double idle = 0;
  double bubble = 0;
  for (const RankTimes& rank : simulation.ranks) {
    idle += static_cast<double>(simulation.makespan - rank.busy - rank.update);
    bubble = std::max(bubble, rank.bubble());
  }
  const double all = static_cast<double>(simulation.makespan) * static_cast<double>(simulation.ranks.size());
  return fmt::format("makespan {}, idle {} of all ranks' time, largest bubble {}\n\n",
                     time_text(simulation.makespan), percent(all > 0 ? idle / all : 0), percent(bubble));
}

std::string times_table(const Schedule& schedule, const Simulation& simulation) {
  std::vector<std::vector<std::string>> lines{{"rank", "stages", "busy", "span", "bubble", "ramp up",
                                               "dependency", "transfer", "cool down", "update", "in flight"}};
  for (std::uint32_t rank = 0; rank < schedule.ranks; ++rank) {
    const RankTimes& times = simulation.ranks[rank];
    lines.push_back({std::to_string(rank), stage_list(schedule.stages_of[rank]), time_text(times.busy),
                     time_text(times.span()), percent(times.bubble()), time_text(times.ramp_up),
                     time_text(times.dependency_wait), time_text(times.transfer_wait),
                     time_text(times.cool_down), time_text(times.update),
                     std::to_string(times.peak_in_flight)});
  }
  return to_table(lines);
}

std::string slots_table(const Plan& plan) {
  const Schedule& schedule = plan.schedule;
  std::vector<std::vector<std::string>> lines{
      {"stage", "rank", "in flight", "activation slots", "weight-work slots"}};
  if (!plan.layers.empty()) lines[0].push_back("layers");
  for (std::uint32_t stage = 0; stage < schedule.stage_count; ++stage)
    for (const StagePeaks& peaks : schedule.peaks[schedule.rank_of[stage]].stages)
      if (peaks.stage == stage) {
        lines.push_back({std::to_string(stage), std::to_string(schedule.rank_of[stage]),
                         std::to_string(peaks.in_flight), std::to_string(peaks.activation_slots),
                         std::to_string(peaks.weight_slots)});
        if (!plan.layers.empty()) lines.back().push_back(std::to_string(plan.layers[stage]));
      }
  return to_table(lines);
}

std::string memory_table(const Plan& plan) {
  std::vector<std::vector<std::string>> lines(1, {"rank"});
  for (const MemoryColumn& column : plan.memory) lines[0].push_back(column.name);
  lines[0].push_back("together");
  if (!plan.peak_activation_bytes.empty()) lines[0].push_back("held in slots at most");
  for (std::uint32_t rank = 0; rank < plan.schedule.ranks; ++rank) {
    auto& line = lines.emplace_back(1, std::to_string(rank));
    std::uint64_t sum = 0;
    for (const MemoryColumn& column : plan.memory) {
      line.push_back(bytes_text(column.bytes[rank]));
      sum += column.bytes[rank];
    }
    line.push_back(bytes_text(sum));
    if (!plan.peak_activation_bytes.empty()) line.push_back(bytes_text(plan.peak_activation_bytes[rank]));
  }
  return to_table(lines);
}

std::string links_table(const Simulation& simulation) {
  std::vector<std::vector<std::string>> lines{{"from rank", "to rank", "messages", "bytes"}};
  for (const LinkTraffic& link : simulation.links)
    lines.push_back({std::to_string(link.from), std::to_string(link.to), std::to_string(link.messages),
                     bytes_text(link.bytes)});
  return to_table(lines);
}

std::string simulation_text(const Plan& plan, const Simulation& simulation, std::uint32_t width,
                            Palette palette) {
  return headline(simulation) +
         draw_timeline(simulation, plan.schedule, simulation.makespan, width, palette) + '\n' +
         times_table(plan.schedule, simulation);
}

std::string render(const Plan& plan, std::uint32_t width, Palette palette) {
  const Schedule& schedule = plan.schedule;
  std::string text = fmt::format("{}: {} ranks, {} stages, {} micro-batches\n", schedule.name, schedule.ranks,
                                 schedule.stage_count, schedule.microbatches);
  text += simulation_text(plan, plan.published, width, palette);
  if (plan.as_run) {
    text += "\nAs run (a B out of turn runs as its I, its W is held until its turn):\n";
    text += simulation_text(plan, *plan.as_run, width, palette);
  }
  text += "\nF forward, B backward, I backward for the input, W backward for the weights;\n";
  text += "lower case: a rank's later stages; dots: idle\n";
  text += "idle: time outside of ops and update; bubble: idle share between a rank's first and last op\n";
  text += plan.early_gradient ? early_gradient_rule : late_gradient_rule;
  text += "\nSlots";
  text += plan.as_run ? " (as run)\n" : "\n";
  text += slots_table(plan);
  if (!plan.memory.empty()) text += fmt::format("\nMemory\n{}", memory_table(plan));
  if (!plan.published.links.empty()) text += fmt::format("\nMessages\n{}", links_table(plan.published));
  return text;
}

}  // namespace

std::string plan_to_text(const Plan& plan, std::uint32_t width) {
  return render(plan, width, Palette::plain);
}

std::string plan_to_coloured_text(const Plan& plan, std::uint32_t width) {
  return render(plan, width, Palette::ansi);
}

}  // namespace weft
