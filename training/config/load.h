#pragma once
// From a file and a command line to a checked configuration, and back to YAML.
#include <string>
#include <vector>

#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/overrides.h"
#include "weft/training/config/source.h"
#include "weft/training/resume.h"

namespace weft {

struct LoadedConfig {
  NanotronConfig config;
  ConfigSources sources;             ///< for messages about files that are opened later
  std::vector<std::string> notices;  ///< what the file asks for and weft ignores, one line each
};

/// Reads the file, puts the overrides in, in their order, and checks the result. A run that goes on from a
/// checkpoint may have its architecture from there: see adopt_given_architecture. Throws ConfigError.
[[nodiscard]] LoadedConfig load_config(const std::string& path,
                                       const std::vector<ConfigOverride>& overrides = {},
                                       const ResumeRequest& resume = {});

/// The same for text that is not in a file of its own; `name` stands for it in messages.
[[nodiscard]] LoadedConfig parse_config(const std::string& text, const std::string& name,
                                        const std::vector<ConfigOverride>& overrides = {},
                                        const ResumeRequest& resume = {});

/// Every key that weft keeps, as YAML that loads to the same configuration.
[[nodiscard]] std::string to_yaml(const NanotronConfig& config);

}  // namespace weft
