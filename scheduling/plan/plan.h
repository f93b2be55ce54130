#pragma once
// Where to start for `weft plan` and `weft check`: a schedule with its simulation, shown in every format.
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/scheduling/orders/schedule.h"
#include "weft/scheduling/simulation/simulator.h"
#include "weft/scheduling/simulation/trace.h"

namespace weft {

/// The time that plans print as 1: costs are given and shown in this unit (measured ones in milliseconds).
inline constexpr Nanoseconds cost_unit = 1'000'000;

/// One kind of memory in bytes: [rank]. Filled in by those who know the model.
struct MemoryColumn {
  std::string name;
  std::vector<std::uint64_t> bytes;
};

/// A schedule and what happens when it is played.
struct Plan {
  Schedule schedule;
  Simulation published;              ///< a B is one op, no W is held; for a dynamic schedule, what it did
  std::optional<Simulation> as_run;  ///< where a run holds W's
  bool early_gradient = false;       ///< planned so: see SimulationSettings
  std::vector<std::int64_t> layers;  ///< [stage], of a model's plan; else empty
  std::vector<MemoryColumn> memory;
  /// [rank]: most bytes in held slots at once, what a run reports under this name; empty when unknown (no
  /// model, or a dynamic schedule). At most the activation and weight-work slots together.
  std::vector<std::uint64_t> peak_activation_bytes;

  /// What a run is compared with.
  [[nodiscard]] const Simulation& run() const noexcept { return as_run ? *as_run : published; }
  /// Bytes of all columns together on the fullest rank, 0 without columns.
  [[nodiscard]] std::uint64_t largest_memory() const noexcept;
};

/// The same costs for every stage: F, I, W and the latency between ranks, in cost_unit. Throws ScheduleError
/// when one is negative, above 1e9, or so small (below 0.001) that rounding to nanoseconds would show.
[[nodiscard]] SimulationSettings uniform_costs(double forward, double input, double weight, double latency);

/// Simulates `schedule` (as published and, where they differ, as run), and keeps what `settings` say: text,
/// JSON and CSV need Record::timeline, drawings and traces Record::events, a comparison nothing.
[[nodiscard]] Plan make_plan(Schedule schedule, const SimulationSettings& settings);

/// Timeline, times, slots, memory and links for the terminal, `width` columns wide. Colours are ANSI
/// sequences.
[[nodiscard]] std::string plan_to_text(const Plan& plan, std::uint32_t width);
[[nodiscard]] std::string plan_to_coloured_text(const Plan& plan, std::uint32_t width);

/// `makespan`, `ranks: [{order, busy, span, idle, peak_in_flight, ...}]`, and `as_run` of the same shape
/// where a run holds W's. Times in cost_unit.
[[nodiscard]] std::string plan_to_json(const Plan& plan);

/// The order as published in PyTorch's compute-only CSV; for a dynamic schedule the order it took.
[[nodiscard]] std::string plan_to_csv(const Plan& plan);

/// A drawing of the timeline (as run below the published one where they differ).
[[nodiscard]] std::string plan_to_svg(const Plan& plan);

/// The events of run() as a Chrome/Perfetto trace.
[[nodiscard]] std::string plan_to_chrome(const Plan& plan);

/// A schedule in a comparison: its plan, or why it cannot run here.
struct ComparedSchedule {
  std::string name;
  std::optional<Plan> plan;
  std::string refused;
};

/// Plans every schedule, and the orders in `files`, with `make`, which is given a name or a path and may
/// throw weft::Error for those that cannot run.
[[nodiscard]] std::vector<ComparedSchedule> compare_schedules(
    const std::function<Plan(const std::string& schedule)>& make, std::span<const std::string> files = {});

/// The maker of plans without a model: what `request` says (but for its schedule), and `costs`, which are
/// those of one stage per rank; with v stages per rank each costs a v-th.
[[nodiscard]] std::function<Plan(const std::string& schedule)> plan_maker(const ScheduleRequest& request,
                                                                          const SimulationSettings& costs);

/// One line per schedule: makespan, bubble, pairs in flight, memory. A star marks the shortest one whose
/// largest_memory() is at most `memory_limit` bytes (0 = no limit).
[[nodiscard]] std::string comparison_to_text(std::span<const ComparedSchedule> schedules,
                                             std::uint64_t memory_limit);
/// `schedules: [{schedule, makespan, mean_bubble, ...} or {schedule, refused}]`, `shortest`, `memory_limit`.
[[nodiscard]] std::string comparison_to_json(std::span<const ComparedSchedule> schedules,
                                             std::uint64_t memory_limit);

/// A plan, which outlives it, and one step of a run of the same pipeline.
struct PlanAgainstTrace {
  const Plan& plan;
  std::uint32_t step = 0;
  Simulation run;
};

/// Takes one step of a trace (0 = the last). Throws ScheduleError when the trace does not hold the step or is
/// of another pipeline.
[[nodiscard]] PlanAgainstTrace lay_against_trace(const Plan& plan, std::span<const TraceEvent> trace,
                                                 std::uint32_t step);

/// Both timelines, the first op that differs on each rank, op times, and where the time of every rank went.
/// The plan has its events.
[[nodiscard]] std::string against_trace_to_text(const PlanAgainstTrace& both, std::uint32_t width);
/// `plan` and `run` as in plan_to_json, `differences: [{rank, op, plan, run}]`, `op_times: [{stage, F, B, I,
/// W}]` with the mean times of both, null where there was none.
[[nodiscard]] std::string against_trace_to_json(const PlanAgainstTrace& both);

}  // namespace weft
