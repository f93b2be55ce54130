#pragma once
// What a trace says about one step, in the words of the simulator.
#include <cstdint>
#include <span>
#include <vector>

#include "weft/scheduling/simulation/simulator.h"
#include "weft/scheduling/simulation/trace.h"

namespace weft {

/// The training steps that a trace holds, ascending.
[[nodiscard]] std::vector<std::uint32_t> traced_steps(std::span<const TraceEvent> events);

/// The events of one training step, those of a rank in the order of their start, times counted from its first
/// op.
[[nodiscard]] std::vector<TraceEvent> events_of_step(std::span<const TraceEvent> events, std::uint32_t step);

/// The ops that every rank executed in one step (events of that step only), in sequence: [rank].
[[nodiscard]] Order executed_order(std::span<const TraceEvent> step, std::uint32_t ranks);

/// The times of one step as the simulator reports them: a wait counts as a dependency until the op on the
/// other rank that it waited for had ended, then as a transfer. Pairs in flight are counted along the
/// executed order.
[[nodiscard]] Simulation measure_step(std::span<const TraceEvent> step, std::uint32_t ranks);

/// What the ops of a run cost: mean times, for simulations of the same stages.
struct MeasuredCosts {
  std::vector<OpCosts> stages;         ///< [stage]; a rank's update is spread evenly over its stages
  std::vector<std::uint32_t> rank_of;  ///< [stage]; ranks without an op do not count
  Nanoseconds latency = 0;  ///< from the end of what made a message to its arrival, mean over the borders of
                            ///< the medians of both directions (so that clocks of hosts need not agree)
};

/// Costs from all training steps of a trace but the first one (all, when there is only one). Throws
/// ScheduleError when there is no training step, or a stage without F or without backward.
[[nodiscard]] MeasuredCosts measure_costs(std::span<const TraceEvent> trace);

}  // namespace weft
