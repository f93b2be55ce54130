#pragma once
#include <string>
#include <vector>

#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"

namespace weft {

/// Adds a notice for every pattern of optimizer.weight_decay_exclude_named_params that names no parameter of
/// the model, with its place. The configuration has been checked.
void tell_patterns_without_effect(const NanotronConfig& config, const ConfigSources& sources,
                                  std::vector<std::string>& notices);

}  // namespace weft
