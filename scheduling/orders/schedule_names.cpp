#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/text/spelling.h"
#include "weft/scheduling/orders/schedule.h"

namespace weft {

namespace {

constexpr std::uint32_t any = std::numeric_limits<std::uint32_t>::max();

// name, placement, chunks: default, least, most; splits backward, dynamic, summary
constexpr ScheduleInfo schedules[] = {
    {"afab", Placement::loop, 1, 1, 1, false, false, "all forward, then all backward"},
    {"1f1b", Placement::loop, 1, 1, 1, false, false, "one forward, one backward"},
    {"interleaved_1f1b", Placement::loop, 2, 2, any, false, false, "1F1B over several stages per rank"},
    {"looped_bfs", Placement::loop, 2, 2, any, false, false, "stage by stage, all micro-batches at a time"},
    {"zb_h1", Placement::loop, 1, 1, any, true, false, "zero bubble at the memory of 1F1B"},
    {"zb_h2", Placement::loop, 1, 1, 1, true, false, "zero bubble at twice the memory of 1F1B"},
    {"zbv", Placement::fold, 2, 2, 2, true, false, "zero bubble, V placement"},
    {"dualpipe_v", Placement::fold, 2, 2, 2, true, false, "forward and backward overlapped, V placement"},
    {"v_half", Placement::fold, 2, 2, 2, true, false, "half the memory of 1F1B, V placement"},
    {"v_min", Placement::fold, 2, 2, 2, true, false, "a third of the memory of 1F1B, V placement"},
    {"ready_first", Placement::loop, 1, 1, any, true, true, "whatever has arrived, within a cap of slots"},
};

constexpr std::pair<std::string_view, std::string_view> aliases[] = {
    {"gpipe", "afab"},           {"interleaved1f1b", "interleaved_1f1b"},
    {"loopedbfs", "looped_bfs"}, {"zb1p", "zb_h1"},
    {"zbh1", "zb_h1"},           {"interleavedzerobubble", "zb_h1"},
    {"zbh2", "zb_h2"},           {"zbvzerobubble", "zbv"},
    {"dualpipev", "dualpipe_v"}, {"vhalf", "v_half"},
    {"vmin", "v_min"},
};

std::string folded(std::string_view name) {
  std::string result;
  for (const char c : name)
    if (c != '_' && c != '-') result += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// PyTorch's classes are called Schedule1F1B, ScheduleGPipe, ...
std::string_view without_class_prefix(std::string_view name) {
  constexpr std::string_view prefix = "schedule";
  return folded(name.substr(0, prefix.size())) == prefix ? name.substr(prefix.size()) : name;
}

}  // namespace

std::span<const ScheduleInfo> all_schedules() { return schedules; }

const ScheduleInfo* find_schedule(std::string_view name) {
  std::string wanted = folded(without_class_prefix(name));
  for (const auto& [alias, canonical] : aliases)
    if (wanted == alias) wanted = folded(canonical);
  for (const ScheduleInfo& info : schedules)
    if (folded(info.name) == wanted) return &info;
  return nullptr;
}

const ScheduleInfo& schedule_info(std::string_view name) {
  if (const ScheduleInfo* info = find_schedule(name)) return *info;
  std::vector<std::string_view> names;
  for (const ScheduleInfo& info : schedules) names.push_back(info.name);
  std::string lower(without_class_prefix(name));
  std::transform(lower.begin(), lower.end(), lower.begin(), [](unsigned char c) { return std::tolower(c); });
  const std::string_view nearest = nearest_spelling(lower, names);
  throw ScheduleError(fmt::format(
      "no schedule is called '{}'{}; allowed: {}, or a .csv file", name.substr(0, 64),
      nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest), fmt::join(names, ", ")));
}

}  // namespace weft
