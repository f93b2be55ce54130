#pragma once
// Whether a training can fit into this machine, before any of its ranks starts.
#include <cstdint>

#include "weft/actors/pipeline_plan.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"

namespace weft {

/// Throws ConfigError when what all ranks of the plan take together, with the copies from which a training
/// that saves writes its checkpoints, is more than `usable` bytes; it names the fullest rank's bytes and the
/// key that most of them come from.
void check_memory(const PipelinePlan& plan, const NanotronConfig& config, std::uint64_t usable,
                  const ConfigSources& sources);

}  // namespace weft
