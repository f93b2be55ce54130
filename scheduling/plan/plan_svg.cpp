#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string>

#include "weft/base/text/utf8.h"
#include "weft/scheduling/plan/plan.h"
#include "weft/scheduling/plan/text_table.h"

namespace weft {

namespace {

constexpr double row_height = 24;
constexpr double bar_height = 20;
constexpr double left = 70;  // room for "rank 4095"
constexpr double head = 34;  // room for a heading
constexpr double gap = 24;   // between two pictures

std::string_view fill(const Op& op, bool later_stage) {
  // blue, green, teal, orange; darker for a rank's first stage
  static constexpr std::string_view first[] = {"#4c78a8", "#54a24b", "#439894", "#e08e3c"};
  static constexpr std::string_view later[] = {"#a3bfdb", "#a9d3a3", "#9fd0cc", "#f2cb9c"};
  const auto kind = static_cast<std::size_t>(op.kind);
  return later_stage ? later[kind] : first[kind];
}

std::string escaped(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const Utf8Character character = first_character(text);
    const char32_t code = character.code_point;
    if (!character.valid || code == 0xfffe || code == 0xffff)  // XML has no such characters
      append_utf8(result, 0xfffd);
    else if (code == '<')
      result += "&lt;";
    else if (code == '>')
      result += "&gt;";
    else if (code == '&')
      result += "&amp;";
    else if (code >= ' ')
      result += text.substr(0, character.length);
    text.remove_prefix(character.length);
  }
  return result;
}

// One picture: heading, ranks and their bars, from `top` down.
void draw(std::string& svg, const Simulation& simulation, const Schedule& schedule, const std::string& title,
          double top, double scale) {
  auto out = std::back_inserter(svg);
  out = fmt::format_to(out, "<text x=\"4\" y=\"{:.1f}\" font-weight=\"bold\">{}</text>\n", top + 20,
                       escaped(title));
  for (std::uint32_t rank = 0; rank < schedule.ranks; ++rank) {
    const double y = top + head + row_height * rank;
    out = fmt::format_to(out, "<text x=\"4\" y=\"{:.1f}\">rank {}</text>\n", y + 14, rank);
    out = fmt::format_to(
        out, "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" fill=\"#eeeeee\"/>\n", left, y,
        static_cast<double>(simulation.makespan) * scale, bar_height);
  }
  for (const TraceEvent& event : simulation.events) {
    if (event.kind != TraceKind::executed && event.kind != TraceKind::update) continue;
    const double x = left + static_cast<double>(event.start) * scale;
    const double y = top + head + row_height * event.rank;
    const double width = static_cast<double>(event.end - event.start) * scale;
    const bool update = event.kind == TraceKind::update;
    const std::string name = update ? "update" : to_string(event.op);
    const bool later = !update && event.op.stage != schedule.stages_of[event.rank].front();
    out = fmt::format_to(
        out,
        "<g><title>{}: {} to {}</title><rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{}\" "
        "fill=\"{}\" stroke=\"white\" stroke-width=\"0.5\"/>",
        name, time_text(event.start), time_text(event.end), x, y, width, bar_height,
        update ? "#888888" : fill(event.op, later));
    if (width >= 6.5 * static_cast<double>(name.size()))
      out =
          fmt::format_to(out, "<text x=\"{:.2f}\" y=\"{:.1f}\" text-anchor=\"middle\" fill=\"{}\">{}</text>",
                         x + width / 2, y + 14, later ? "black" : "white", name);
    svg += "</g>\n";
  }
}

}  // namespace

std::string plan_to_svg(const Plan& plan) {
  const Schedule& schedule = plan.schedule;
  const Simulation* longest =
      plan.as_run && plan.as_run->makespan > plan.published.makespan ? &*plan.as_run : &plan.published;
  std::size_t most_ops = 1;
  for (const RankOrder& rank : longest->executed) most_ops = std::max(most_ops, rank.size());
  const double width = std::clamp(static_cast<double>(most_ops) * 32, 600.0, 20000.0);
  const double scale = longest->makespan > 0 ? width / static_cast<double>(longest->makespan) : 0;
  const double picture = head + row_height * schedule.ranks;
  const double height = plan.as_run ? 2 * picture + gap : picture;
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{:.0f}\" height=\"{:.0f}\" "
      "font-family=\"sans-serif\" "
      "font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
      left + width + 10, height + 10);
  const std::string title = fmt::format("{}: {} ranks, {} stages, {} micro-batches, makespan ", schedule.name,
                                        schedule.ranks, schedule.stage_count, schedule.microbatches);
  draw(svg, plan.published, schedule, title + time_text(plan.published.makespan), 0, scale);
  if (plan.as_run)
    draw(svg, *plan.as_run, schedule, "as run, makespan " + time_text(plan.as_run->makespan), picture + gap,
         scale);
  svg += "</svg>\n";
  return svg;
}

}  // namespace weft
