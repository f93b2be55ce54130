#include "weft/scheduling/simulation/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "weft/base/error.h"

namespace weft {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::array<std::string_view, 6> kinds{"executed", "held",   "waiting",
                                                "arrived",  "update", "input_done"};
constexpr std::array<std::string_view, 4> op_kinds{"F", "B", "I", "W"};
constexpr std::array<std::string_view, 4> lanes{"ops", "held", "waiting", "messages"};
constexpr unsigned ops_lane = 0;

// No clock is older than this (31 years); sums and differences of such times stay in range.
constexpr Nanoseconds latest = 1'000'000'000'000'000'000;

unsigned lane_of(TraceKind kind) {
  if (kind == TraceKind::update) return ops_lane;
  return static_cast<unsigned>(kind == TraceKind::input_done ? TraceKind::arrived : kind);
}

bool is_instant(TraceKind kind) { return kind == TraceKind::arrived || kind == TraceKind::input_done; }

// Chrome's names of colours it knows, so that the kinds can be told apart without a legend.
std::string_view colour(const TraceEvent& event) {
  if (event.kind == TraceKind::update) return "grey";
  if (event.kind != TraceKind::executed) return "generic_work";
  switch (event.op.kind) {
    case OpKind::forward:
      return "thread_state_running";
    case OpKind::backward:
      return "thread_state_iowait";
    case OpKind::backward_input:
      return "thread_state_runnable";
    case OpKind::backward_weight:
      return "good";
  }
  return "grey";
}

// Chrome counts in microseconds. A double keeps every nanosecond of the first 100 days.
double microseconds(Nanoseconds time) { return static_cast<double>(time) / 1000; }

std::string one_line(const ordered_json& line) {
  return line.dump(-1, ' ', true, ordered_json::error_handler_t::replace);
}

/// One event of a file, for errors that name it.
struct Entry {
  const json& event;
  std::size_t number;  // in the file, from 1

  [[noreturn]] void refuse(const char* field, const std::string& why) const {
    const auto name = event.find("name");
    throw ScheduleError(fmt::format("trace: event {} ({}): {}: {}", number,
                                    name != event.end() && name->is_string()
                                        ? one_line(name->get<std::string>().substr(0, 40))
                                        : "no name",
                                    field, why));
  }
  [[nodiscard]] const json& at(const json& object, const char* field) const {
    const auto value = object.is_object() ? object.find(field) : object.end();
    if (!object.is_object() || value == object.end()) refuse(field, "is missing");
    return *value;
  }
  [[nodiscard]] Nanoseconds time(const char* field) const {
    const json& value = at(event, field);
    if (!value.is_number()) refuse(field, "is no number");
    const double time = value.get<double>() * 1000;
    if (!(time >= 0 && time <= static_cast<double>(latest)))
      refuse(field, fmt::format("is {}; allowed: 0 to {} microseconds", value.dump(), latest / 1000));
    return std::llround(time);
  }
  template <class T>
  [[nodiscard]] T number_in(const json& object, const char* field) const {
    const json& value = at(object, field);
    if (!value.is_number_unsigned() || value.get<std::uint64_t>() > std::numeric_limits<T>::max())
      refuse(field, fmt::format("is {}; allowed: 0 to {}",
                                value.dump(-1, ' ', true, json::error_handler_t::replace).substr(0, 40),
                                std::numeric_limits<T>::max()));
    return static_cast<T>(value.get<std::uint64_t>());
  }
  template <std::size_t N>
  [[nodiscard]] std::size_t word_of(const std::array<std::string_view, N>& words, const json& object,
                                    const char* field) const {
    const json& value = at(object, field);
    for (std::size_t i = 0; value.is_string() && i < N; ++i)
      if (words[i] == value.get<std::string>()) return i;
    refuse(field, fmt::format("is none of {}", fmt::join(words, ", ")));
  }
};

TraceEvent event_of(const Entry& entry) {
  const json& args = entry.at(entry.event, "args");
  TraceEvent event;
  event.kind = static_cast<TraceKind>(entry.word_of(kinds, args, "kind"));
  event.start = entry.time("ts");
  event.end = event.start + (entry.event.contains("dur") ? entry.time("dur") : 0);
  event.rank = entry.number_in<std::uint32_t>(entry.event, "pid");
  event.step = entry.number_in<std::uint32_t>(args, "step");
  event.phase =
      static_cast<Phase>(entry.word_of(std::array<std::string_view, 2>{"train", "evaluate"}, args, "phase"));
  if (event.kind == TraceKind::update) return event;
  event.op.stage = entry.number_in<std::uint16_t>(args, "stage");
  event.op.microbatch = entry.number_in<std::uint32_t>(args, "microbatch");
  event.op.kind = static_cast<OpKind>(entry.word_of(op_kinds, args, "op"));
  event.op.fused_with_next = args.contains("fused_with_next");
  return event;
}

json parsed(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  const bool bare = start != std::string_view::npos && text[start] == '[';
  json file = json::parse(text, nullptr, !bare);
  if (!file.is_discarded()) return file;
  // Lines of a rank that is at work, or was killed: the array has no end, its last line perhaps neither.
  file = json::parse(std::string(text) + "]", nullptr, false);
  if (!file.is_discarded()) return file;
  const std::size_t last = text.rfind(",\n");
  return json::parse(std::string(text.substr(0, last == std::string_view::npos ? text.size() : last)) + "]");
}

}  // namespace

static_assert(static_cast<int>(Phase::train) == 0 && static_cast<int>(Phase::evaluate) == 1);

void ChromeTraceLines::add_line(const std::string& json) {
  text_ += std::exchange(is_first_, false) ? "\n" : ",\n";
  text_ += json;
}

std::string ChromeTraceLines::take() { return std::exchange(text_, {}); }

void ChromeTraceLines::add_rank(std::uint32_t rank) {
  add_line(one_line({{"ph", "M"},
                     {"name", "process_name"},
                     {"pid", rank},
                     {"args", {{"name", fmt::format("rank {}", rank)}}}}));
  for (std::size_t lane = 0; lane < lanes.size(); ++lane)
    add_line(one_line({{"ph", "M"},
                       {"name", "thread_name"},
                       {"pid", rank},
                       {"tid", lane},
                       {"args", {{"name", lanes[lane]}}}}));
}

void ChromeTraceLines::add_facts(const TraceFacts& facts) {
  add_line(one_line({{"ph", "M"}, {"cat", "weft"}, {"name", "facts"}, {"pid", 0}, {"args", facts}}));
}

bool ChromeTraceLines::crosses(std::uint32_t rank, std::int64_t stage) const {
  return stage >= 0 && stage < static_cast<std::int64_t>(rank_of_.size()) &&
         rank_of_[static_cast<std::size_t>(stage)] != rank;
}

// `end`: s at the op that made the message, f at the one that takes it; the ops around them are joined.
void ChromeTraceLines::add_arrow(const char* end, const TraceEvent& event, const Op& made_by,
                                 Nanoseconds time) {
  ordered_json line{
      {"ph", end},
      {"cat", "message"},
      {"name", made_by.kind == OpKind::forward ? "activation" : "gradient"},
      {"id", fmt::format("{}{}{}{}.{}", event.phase == Phase::train ? 't' : 'e', event.step,
                         made_by.kind == OpKind::forward ? 'F' : 'B', made_by.stage, made_by.microbatch)},
      {"pid", event.rank},
      {"tid", ops_lane},
      {"ts", microseconds(time)}};
  if (*end == 'f') line["bp"] = "e";
  add_line(one_line(line));
}

void ChromeTraceLines::add(const TraceEvent& event) {
  const bool update = event.kind == TraceKind::update;
  const bool instant = is_instant(event.kind);
  ordered_json line{{"ph", instant ? "i" : "X"},
                    {"cat", "weft"},
                    {"name", update ? "update" : to_string(event.op)},
                    {"pid", event.rank},
                    {"tid", lane_of(event.kind)},
                    {"ts", microseconds(event.start)}};
  if (instant)
    line["s"] = "t";
  else
    line["dur"] = microseconds(event.end - event.start);
  line["cname"] = colour(event);
  ordered_json& args = line["args"];
  args["kind"] = kinds[static_cast<std::size_t>(event.kind)];
  args["step"] = event.step;
  args["phase"] = event.phase == Phase::train ? "train" : "evaluate";
  if (!update) {
    args["stage"] = event.op.stage;
    args["op"] = op_kinds[static_cast<std::size_t>(event.op.kind)];
    args["microbatch"] = event.op.microbatch;
    if (event.op.fused_with_next) args["fused_with_next"] = true;
  }
  add_line(one_line(line));

  if (event.op.kind == OpKind::backward_weight || update) return;
  const bool forward = event.op.kind == OpKind::forward;
  const bool leaves = crosses(event.rank, forward ? event.op.stage + 1 : event.op.stage - 1);
  if (event.kind == TraceKind::input_done) {
    if (leaves) add_arrow("s", event, event.op, event.start);
    halves_.push_back(event);
  } else if (event.kind == TraceKind::executed) {
    const int source = forward ? event.op.stage - 1 : event.op.stage + 1;
    const Op made_by{event.op.microbatch, static_cast<std::uint16_t>(source), event.op.kind, false};
    if (crosses(event.rank, source)) add_arrow("f", event, made_by, event.start);
    const auto half = std::find_if(halves_.begin(), halves_.end(), [&](const TraceEvent& one) {
      return one.rank == event.rank && one.op == event.op && event.op.kind == OpKind::backward;
    });
    if (half != halves_.end())
      halves_.erase(half);
    else if (leaves)  // inside the op, whose end is no part of it
      add_arrow("s", event, event.op, std::max(event.start, event.end - 1));
  }
}

std::string chrome_trace_head(std::string_view title) {
  return fmt::format(R"({{"displayTimeUnit":"ns","otherData":{},"traceEvents":[)",
                     one_line({{"title", std::string(title)}}));
}

std::string chrome_trace_tail() { return "\n]}\n"; }

std::string to_chrome_trace(std::span<const TraceEvent> events, std::string_view title,
                            std::vector<std::uint32_t> rank_of) {
  ChromeTraceLines lines(std::move(rank_of));
  std::set<std::uint32_t> ranks;
  for (const TraceEvent& event : events) ranks.insert(event.rank);
  for (const std::uint32_t rank : ranks) lines.add_rank(rank);
  for (const TraceEvent& event : events) lines.add(event);
  return chrome_trace_head(title) + lines.take() + chrome_trace_tail();
}

Trace from_chrome_trace(std::string_view text) {
  Trace trace;
  try {
    const json file = parsed(text);
    double durations = 0;
    std::size_t number = 0;
    for (const json& one : file.is_array() ? file : file.at("traceEvents")) {
      const Entry entry{one, ++number};
      if (!one.is_object() || one.value("cat", "") != "weft") continue;
      if (one.value("ph", "") == "M") {
        for (const auto& [name, value] : entry.at(one, "args").items())
          trace.facts[name] = value.is_string() ? value.get<std::string>() : value.dump();
        continue;
      }
      const TraceEvent& event = trace.events.emplace_back(event_of(entry));
      durations += static_cast<double>(event.end - event.start);
      if (durations > static_cast<double>(latest))
        entry.refuse("dur", "all durations together are more than a clock holds");
    }
  } catch (const json::exception& error) {
    throw ScheduleError(fmt::format("trace: not a trace that weft wrote: {}", error.what()));
  }
  return trace;
}

}  // namespace weft
