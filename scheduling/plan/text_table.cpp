#include "weft/scheduling/plan/text_table.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>

#include "weft/scheduling/plan/plan.h"

namespace weft {

namespace {

constexpr std::string_view kind_letters = "FBIW";

// Where and how large ops are drawn.
struct Scale {
  double columns_per_ns = 0;
  [[nodiscard]] std::size_t column(Nanoseconds time) const {
    return static_cast<std::size_t>(static_cast<double>(time) * columns_per_ns + 0.5);
  }
};

std::string label_of(const Op& op) {
  return fmt::format("{}{}", kind_letters[static_cast<std::size_t>(op.kind)], op.microbatch);
}

// Whole columns per shortest op where that fits, so that equal ops look equal.
Scale choose_scale(const Simulation& simulation, Nanoseconds length, std::uint32_t columns) {
  Nanoseconds shortest = INT64_MAX;
  std::size_t label = 2;
  std::uint32_t last = 0;
  for (const RankTimeline& rank : simulation.timeline)
    rank.for_each([&](const Op& op, Nanoseconds start, Nanoseconds end) {
      if (end == start) return;
      shortest = std::min(shortest, end - start);
      last = std::max(last, op.microbatch);
    });
  label = std::max(label, label_of(Op{last, 0, OpKind::forward, false}).size());
  if (length == 0 || shortest == INT64_MAX) return {};
  const double ops = static_cast<double>(length) / static_cast<double>(shortest);
  for (std::size_t size = label + 1; size > 0; --size)
    if (ops * static_cast<double>(size) <= columns)
      return {static_cast<double>(size) / static_cast<double>(shortest)};
  return {static_cast<double>(columns) / static_cast<double>(length)};
}

std::string_view colour(const Op& op, bool later_stage) {
  static constexpr std::string_view first[] = {"\x1b[30;104m", "\x1b[30;102m", "\x1b[30;106m",
                                               "\x1b[30;103m"};
  static constexpr std::string_view later[] = {"\x1b[97;44m", "\x1b[97;42m", "\x1b[97;46m", "\x1b[97;43m"};
  const auto kind = static_cast<std::size_t>(op.kind);
  return later_stage ? later[kind] : first[kind];
}

std::string op_text(const Op& op, std::size_t size, bool later_stage) {
  std::string text = label_of(op);
  if (text.size() > size) text = std::string(size, text[0]);
  text.resize(size, ' ');
  if (later_stage)
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string to_table(const std::vector<std::vector<std::string>>& lines) {
  std::vector<std::size_t> widths;
  for (const auto& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], line[i].size());
    }
  std::string text;
  for (const auto& line : lines) {
    std::string row;
    for (std::size_t i = 0; i < line.size(); ++i)
      row += fmt::format("{}{:>{}}", i == 0 ? "" : "  ", line[i], widths[i]);
    text += row;
    text += '\n';
  }
  return text;
}

std::string time_text(Nanoseconds time) {
  return fmt::format("{:.6g}", static_cast<double>(time) / static_cast<double>(cost_unit));
}

std::string percent(double share) { return fmt::format("{:.1f} %", share * 100); }

std::string bytes_text(std::uint64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, units[unit]);
}

std::string draw_timeline(const Simulation& simulation, const Schedule& schedule, Nanoseconds length,
                          std::uint32_t width, Palette palette) {
  const std::size_t name_size = fmt::format("rank {}  ", schedule.ranks - 1).size();
  const std::uint32_t columns = std::max<std::uint32_t>(width, 40) - static_cast<std::uint32_t>(name_size);
  const Scale scale = choose_scale(simulation, length, columns);
  const std::size_t end_column = scale.column(simulation.makespan);
  std::string picture;
  for (std::uint32_t rank = 0; rank < schedule.ranks; ++rank) {
    picture += fmt::format("{:<{}}", fmt::format("rank {}", rank), name_size);
    std::size_t drawn = 0;
    simulation.timeline[rank].for_each([&](const Op& op, Nanoseconds start_time, Nanoseconds end_time) {
      const std::size_t start = std::max(scale.column(start_time), drawn);
      const std::size_t end = std::max(scale.column(end_time), start);
      picture.append(start - drawn, '.');
      drawn = end;
      if (end == start) return;
      const bool later_stage = op.stage != schedule.stages_of[rank].front();
      const std::string text = op_text(op, end - start, later_stage);
      if (palette == Palette::plain)
        picture += text;
      else
        picture += fmt::format("{}{}\x1b[0m", colour(op, later_stage), text);
    });
    picture.append(end_column - std::min(end_column, drawn), '.');
    picture += '\n';
  }
  return picture;
}

}  // namespace weft
