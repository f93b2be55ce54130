#pragma once
// What the times in a trace depend on.
#include "weft/scheduling/simulation/chrome_trace.h"
#include "weft/training/config/nanotron_config.h"

namespace weft {

/// The shape of the model, the size of a micro-batch, types and kernels: what an op costs depends on them,
/// and on nothing about the pipeline.
[[nodiscard]] TraceFacts cost_facts(const NanotronConfig& config);

/// What a trace says otherwise than `here`, for a message: "hidden_size is 64 in the trace, 128 here", joined
/// by commas. Facts that only one of them has do not count; empty when they agree.
[[nodiscard]] std::string differing_facts(const TraceFacts& trace, const TraceFacts& here);

}  // namespace weft
