#pragma once
// From a file and a command line to a checked configuration, and back to YAML.
#include <string>
#include <vector>

#include "weft/training/config/given_architecture.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/overrides.h"
#include "weft/training/config/source.h"

namespace weft {

struct LoadedConfig {
  NanotronConfig config;
  ConfigSources sources;             ///< for messages about files that are opened later
  std::vector<std::string> notices;  ///< what the file asks for and weft ignores, one line each
};

/// Reads the file, puts the overrides in, in their order, and checks the result. `architecture` says what
/// init_method.path means; for a run that may go on from a checkpoint see resumed_architecture. Throws one
/// ConfigError with a line for each thing that is wrong.
[[nodiscard]] LoadedConfig load_config(const std::string& path,
                                       const std::vector<ConfigOverride>& overrides = {},
                                       const FindArchitecture& architecture = architecture_of_folder);

/// The same for a plan, which needs no data, no optimizer, no initial weights and no number of steps. What
/// the file says of them is checked all the same.
[[nodiscard]] LoadedConfig load_plan_config(const std::string& path,
                                            const std::vector<ConfigOverride>& overrides = {});

/// The same as load_config for text that is not in a file of its own; `name` stands for it in messages.
[[nodiscard]] LoadedConfig parse_config(const std::string& text, const std::string& name,
                                        const std::vector<ConfigOverride>& overrides = {},
                                        const FindArchitecture& architecture = architecture_of_folder);

/// Reads what to_yaml wrote, key by key: what keys must be together is not checked, nor init_method.path
/// looked at. Throws ConfigError.
[[nodiscard]] NanotronConfig parse_written_config(const std::string& text, const std::string& name);

/// Every key that weft keeps, as YAML that loads to the same configuration.
[[nodiscard]] std::string to_yaml(const NanotronConfig& config);

}  // namespace weft
