#pragma once
// What keys must be together, after every key is right by itself.
#include "weft/training/config/complaints.h"
#include "weft/training/config/config_use.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"

namespace weft {

/// Checks every key by the schema and all of them together; for configurations that a program made or
/// changed, too. Data files are checked when they are opened. Throws ConfigError with a line for each thing
/// that is wrong; `sources` gives the places in its message.
void check_config(const NanotronConfig& config, const ConfigSources& sources = {});

/// The second half of check_config: what keys must be together. Keys that could not be read are left out.
void check_together(const NanotronConfig& config, const ConfigSources& sources, ConfigUse use,
                    Complaints& complaints);

}  // namespace weft
