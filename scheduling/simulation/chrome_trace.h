#pragma once
// Traces as files: the JSON that Perfetto and chrome://tracing open.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/scheduling/simulation/trace.h"

namespace weft {

/// What times of a trace depend on (sizes of the model, kernels, ...), by name: traces with other facts are
/// of another thing.
using TraceFacts = std::map<std::string, std::string>;

/// Writes events piece by piece, so that a long trace needs no memory: a rank's lanes are `ops`, `waiting`,
/// `held` and `messages`; arrivals are instants, with an arrow from the op that made the message to the op
/// that takes it.
class ChromeTraceLines {
 public:
  /// `rank_of` [stage] says which messages cross ranks; empty: no arrows.
  explicit ChromeTraceLines(std::vector<std::uint32_t> rank_of) : rank_of_(std::move(rank_of)) {}

  /// Names a rank and its lanes for the viewer.
  void add_rank(std::uint32_t rank);
  void add_facts(const TraceFacts& facts);
  /// The events of a rank come in the order in which the rank recorded them.
  void add(const TraceEvent& event);
  /// The lines added since the last call: elements of a JSON array with the commas between them, also across
  /// calls.
  [[nodiscard]] std::string take();

 private:
  void add_line(const std::string& json);
  void add_arrow(const char* end, const TraceEvent& event, const Op& made_by, Nanoseconds time);
  [[nodiscard]] bool crosses(std::uint32_t rank, std::int64_t stage) const;

  std::vector<std::uint32_t> rank_of_;
  std::string text_;
  bool is_first_ = true;
  std::vector<TraceEvent> halves_;  // of B's whose gradient has left but whose end is to come
};

/// The file around such lines: head, lines, tail. `title` is shown by the viewer.
[[nodiscard]] std::string chrome_trace_head(std::string_view title);
[[nodiscard]] std::string chrome_trace_tail();

/// A whole file.
[[nodiscard]] std::string to_chrome_trace(std::span<const TraceEvent> events, std::string_view title,
                                          std::vector<std::uint32_t> rank_of = {});

struct Trace {
  TraceFacts facts;
  std::vector<TraceEvent> events;  ///< in the order of the file
};

/// Reads what was written this way; events of other programs in it are passed over. A bare array of events
/// may lack its end, as the file of a rank that was killed does. Throws ScheduleError when the text is no
/// such trace, and for an event of weft's that is damaged: its number, name and field.
[[nodiscard]] Trace from_chrome_trace(std::string_view text);

}  // namespace weft
