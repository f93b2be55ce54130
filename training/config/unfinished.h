#pragma once
// What the configuration can say but weft cannot do yet. Whoever builds a feature removes its function here.
#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"

namespace weft {

/// Calls all of the below. Each throws ConfigError when the configuration asks for what does not exist yet.
void refuse_unfinished(const NanotronConfig& config, const ConfigSources& sources);

void refuse_checkpoints(const NanotronConfig& config, const ConfigSources& sources);
void refuse_bfloat16(const NanotronConfig& config, const ConfigSources& sources);
void refuse_recompute(const NanotronConfig& config, const ConfigSources& sources);
void refuse_given_weights(const NanotronConfig& config, const ConfigSources& sources);
void refuse_evaluation(const NanotronConfig& config, const ConfigSources& sources);

}  // namespace weft
