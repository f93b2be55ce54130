#include "weft/scheduling/simulation/trace.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "weft/base/error.h"

namespace weft {

namespace {

constexpr std::array<std::string_view, 6> kinds{"executed", "held",   "waiting",
                                                "arrived",  "update", "input_done"};
constexpr std::array<std::string_view, 4> op_kinds{"F", "B", "I", "W"};
constexpr std::array<std::string_view, 4> lanes{"ops", "held", "waiting", "messages"};

unsigned lane_of(TraceKind kind) {
  if (kind == TraceKind::update) return 0;
  return static_cast<unsigned>(kind == TraceKind::input_done ? TraceKind::arrived : kind);
}

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

std::string escaped(std::string_view text) {
  return nlohmann::json(std::string(text)).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

// Chrome counts in microseconds; three decimals keep every nanosecond.
std::string microseconds(Nanoseconds time) {
  const bool negative = time < 0;
  const auto size = negative ? 0 - static_cast<std::uint64_t>(time) : static_cast<std::uint64_t>(time);
  return fmt::format("{}{}.{:03}", negative ? "-" : "", size / 1000, size % 1000);
}

Nanoseconds nanoseconds(const nlohmann::json& value) {
  const double time = value.get<double>() * 1000;
  if (!(std::fabs(time) < 9e18)) throw ScheduleError("trace: a time is out of range");
  return std::llround(time);
}

template <std::size_t N>
std::size_t index_of(const std::array<std::string_view, N>& names, const std::string& name) {
  for (std::size_t i = 0; i < N; ++i)
    if (names[i] == name) return i;
  throw ScheduleError(fmt::format("trace: unknown word '{}'", name.substr(0, 40)));
}

template <class T>
T number(const nlohmann::json& value) {
  const auto wide = value.get<std::uint64_t>();
  if (!value.is_number_unsigned() || wide > std::numeric_limits<T>::max())
    throw ScheduleError("trace: a number is out of range");
  return static_cast<T>(wide);
}

std::optional<TraceEvent> event_of(const nlohmann::json& entry) {
  if (!entry.is_object() || entry.value("cat", "") != "weft") return std::nullopt;
  const nlohmann::json& args = entry.at("args");
  TraceEvent event;
  event.kind = static_cast<TraceKind>(index_of(kinds, args.at("kind").get<std::string>()));
  event.start = nanoseconds(entry.at("ts"));
  event.end = event.start + (entry.contains("dur") ? nanoseconds(entry.at("dur")) : 0);
  event.rank = number<std::uint32_t>(entry.at("pid"));
  event.step = number<std::uint32_t>(args.at("step"));
  event.phase = args.at("phase") == "evaluate" ? Phase::evaluate : Phase::train;
  if (event.kind == TraceKind::update) return event;
  event.op.stage = number<std::uint16_t>(args.at("stage"));
  event.op.microbatch = number<std::uint32_t>(args.at("microbatch"));
  event.op.kind = static_cast<OpKind>(index_of(op_kinds, args.at("op").get<std::string>()));
  event.op.fused_with_next = args.value("fused_with_next", false);
  return event;
}

}  // namespace

std::string to_chrome_trace(std::span<const TraceEvent> events, std::string_view title) {
  std::string text =
      fmt::format(R"({{"displayTimeUnit":"ns","otherData":{{"title":{}}},"traceEvents":[)", escaped(title));
  auto out = std::back_inserter(text);
  std::set<std::uint32_t> ranks;
  for (const TraceEvent& event : events) ranks.insert(event.rank);
  const char* separator = "\n";
  for (const std::uint32_t rank : ranks) {
    out = fmt::format_to(out, R"({}{{"ph":"M","name":"process_name","pid":{},"args":{{"name":"rank {}"}}}})",
                         separator, rank, rank);
    separator = ",\n";
    for (std::size_t lane = 0; lane < lanes.size(); ++lane)
      out = fmt::format_to(out,
                           R"({}{{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":"{}"}}}})",
                           separator, rank, lane, lanes[lane]);
  }
  for (const TraceEvent& event : events) {
    const std::string_view kind = kinds[static_cast<std::size_t>(event.kind)];
    const std::string_view phase = event.phase == Phase::train ? "train" : "evaluate";
    const bool update = event.kind == TraceKind::update;
    out = fmt::format_to(
        out, R"({}{{"ph":"X","cat":"weft","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},"cname":"{}",)",
        separator, update ? "update" : to_string(event.op), event.rank, lane_of(event.kind),
        microseconds(event.start), microseconds(event.end - event.start), colour(event));
    out = fmt::format_to(out, R"("args":{{"kind":"{}","step":{},"phase":"{}")", kind, event.step, phase);
    if (!update)
      out = fmt::format_to(out, R"(,"stage":{},"op":"{}","microbatch":{})", event.op.stage,
                           op_kinds[static_cast<std::size_t>(event.op.kind)], event.op.microbatch);
    if (!update && event.op.fused_with_next) text += R"(,"fused_with_next":true)";
    text += "}}";
    separator = ",\n";
  }
  text += "\n]}\n";
  return text;
}

std::vector<TraceEvent> from_chrome_trace(std::string_view text) {
  std::vector<TraceEvent> events;
  try {
    const nlohmann::json file = nlohmann::json::parse(text);
    for (const nlohmann::json& entry : file.is_array() ? file : file.at("traceEvents"))
      if (const auto event = event_of(entry)) events.push_back(*event);
  } catch (const nlohmann::json::exception& error) {
    throw ScheduleError(fmt::format("trace: not a trace that weft wrote: {}", error.what()));
  }
  return events;
}

}  // namespace weft
