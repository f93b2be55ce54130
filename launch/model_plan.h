#pragma once
// The plan of a configured training: its schedule, the relative costs of its stages, the memory of its ranks.
#include <optional>

#include "weft/actors/pipeline_plan.h"
#include "weft/scheduling/plan/plan.h"
#include "weft/scheduling/simulation/trace_analysis.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"

namespace weft {

/// What ops are assumed to cost.
struct PlanCosts {
  /// One F, I and W of an even share of the model's arithmetic (one p-th), and the latency between ranks.
  SimulationSettings uniform = uniform_costs(1, 1, 1, 0);
  /// What a run of this model measured, at any number of stages; counts instead.
  std::optional<MeasuredCosts> measured;
  std::uint32_t cores = 0;      ///< that all ranks share, 0 = one each
  bool early_gradient = false;  ///< of a B, as in a run; costs of a model or a run imply it
  Record record = Record::events;

  /// For a schedule without a model: every stage costs `uniform`, or what was measured on it.
  [[nodiscard]] SimulationSettings settings() const;
};

/// Slots, buffers and bytes of the configured training on `schedule`. Throws ConfigError, ScheduleError.
[[nodiscard]] PipelinePlan pipeline_of_model(const NanotronConfig& config, const Schedule& schedule);

/// Plans without taking memory for the model. Every stage costs its share by FLOPs; measured costs of another
/// partition are spread over its layers and head by FLOPs and put together anew. Throws ConfigError, with the
/// places of `sources`, ScheduleError.
[[nodiscard]] Plan plan_of_model(const NanotronConfig& config, const PlanCosts& costs,
                                 const ConfigSources& sources = {});

}  // namespace weft
