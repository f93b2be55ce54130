#pragma once
// The architecture of a model whose weights come from elsewhere (`model.init_method.path`).
#include <functional>
#include <string>
#include <vector>

#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"

namespace weft {

struct GivenArchitecture {
  LlamaArchitecture model;
  std::string from;  ///< the file that says it
};

/// Finds the architecture for a configuration with init_method.path. Throws CheckpointError when what should
/// say it cannot be used, ConfigError.
using FindArchitecture =
    std::function<GivenArchitecture(const NanotronConfig& config, const ConfigSources& sources)>;

/// That of config.json in init_method.path.
[[nodiscard]] GivenArchitecture architecture_of_folder(const NanotronConfig& config,
                                                       const ConfigSources& sources);

/// Where init_method.path is set, takes the architecture from where `find` finds it. A model_config that says
/// something else is named in `notices` with the keys that differ. Throws ConfigError, naming the key.
void adopt_given_architecture(NanotronConfig& config, const ConfigSources& sources,
                              std::vector<std::string>& notices, const FindArchitecture& find);

}  // namespace weft
