#pragma once
// Schedules by name: what each needs, and the order it gives for p ranks, v stages per rank and m
// micro-batches.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/scheduling/op.h"
#include "weft/scheduling/peaks.h"
#include "weft/scheduling/placement.h"
#include "weft/scheduling/policy.h"

namespace weft {

/// What is known about a schedule before p, v and m are.
struct ScheduleInfo {
  std::string_view name;  ///< canonical, for example `interleaved_1f1b`
  Placement placement = Placement::loop;
  std::uint32_t default_chunks = 1;  ///< stages per rank for `chunks: auto`
  std::uint32_t min_chunks = 1;
  std::uint32_t max_chunks = 1;
  bool splits_backward = false;  ///< its order holds I and W
  bool dynamic = false;          ///< has no order; the policy decides by what has arrived
  std::string_view summary;      ///< a few words for tables and help
};

/// All schedules, in the order in which tables and help show them.
[[nodiscard]] std::span<const ScheduleInfo> all_schedules();

/// The schedule of this name or alias (`gpipe`, `zb1p`, PyTorch's class names with or without their
/// `Schedule`; case, `-` and `_` do not matter), or null.
[[nodiscard]] const ScheduleInfo* find_schedule(std::string_view name);

/// The same, but throws ScheduleError with the nearest name and the list of all when there is none.
[[nodiscard]] const ScheduleInfo& schedule_info(std::string_view name);

/// What the user asks for.
struct ScheduleRequest {
  std::string schedule;             ///< a name or alias, or the path of a .csv file
  std::uint32_t ranks = 0;          ///< 0 = as many as the file has
  std::uint32_t chunks = 0;         ///< stages per rank, 0 = auto
  std::uint32_t microbatches = 0;   ///< 0 = as many as the file has
  std::uint32_t max_in_flight = 0;  ///< cap on the pairs in flight of every rank, 0 = the schedule's own peak
  bool stages_split_backward = true;  ///< every stage can run I and W apart
};

/// A schedule of a whole pipeline, checked and ready to run.
struct Schedule {
  std::string name;  ///< canonical name, or the path of a custom order
  std::uint32_t ranks = 0;
  std::uint32_t stage_count = 0;
  std::uint32_t microbatches = 0;
  bool splits_backward = false;  ///< a run executes I and W apart, so every stage must be able to
  bool dynamic = false;
  std::string remark;  ///< what a custom order says that a run passes over; empty: nothing
  std::vector<std::vector<std::uint16_t>> stages_of;  ///< [rank], ascending
  std::vector<std::uint32_t> rank_of;                 ///< [stage]
  Order order;                                        ///< as published; empty for a dynamic schedule
  std::vector<RankPeaks> peaks;                       ///< [rank], of the order as run: slots to provide
};

/// Generates (or reads) the order, checks it and counts its slots. Throws ScheduleError, naming the rule and
/// the nearest value that works, when the schedule does not exist for these ranks, chunks and micro-batches,
/// needs stages that split their backward, or more pairs in flight than max_in_flight.
[[nodiscard]] Schedule make_schedule(const ScheduleRequest& request);

/// Fills in peaks and splits_backward of a schedule that has everything else.
void count_slots(Schedule& schedule);

/// Gives every rank `pairs` slots, for a policy that does not follow the order: any of its stages may hold
/// them, in any state from F to W. The peaks are these slots then. Throws ScheduleError when a rank has more
/// stages than slots.
void give_slots(Schedule& schedule, std::uint32_t pairs);

/// The policy of one rank of `schedule`, which outlives it: the same object for the runtime and the
/// simulator. It keeps W in turn.
[[nodiscard]] std::unique_ptr<Policy> make_policy(const Schedule& schedule, std::uint32_t rank);

}  // namespace weft
