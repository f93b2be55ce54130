#pragma once
// `model.init_method.path`: training that starts from a Hugging Face folder.
#include <span>
#include <string>
#include <vector>

#include "weft/actors/stage.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"
#include "weft/training/resume.h"

namespace weft {

/// Where init_method.path is set, takes the architecture from that folder's config.json or, in a run that
/// goes on, from the checkpoint: then the folder may be gone. A model_config that says something else is
/// named in `notices`, once. Throws ConfigError, naming the key, when folder or checkpoint cannot be used.
void adopt_given_architecture(NanotronConfig& config, const ConfigSources& sources,
                              std::vector<std::string>& notices, const ResumeRequest& request = {});

/// Fills one rank's parameters from init_method.path; does nothing where it is not set. Throws
/// CheckpointError.
void load_given_weights(const NanotronConfig& config, std::span<Parameter* const> parameters);

/// The text of config.json in init_method.path, "{}" where that is not set. Throws CheckpointError.
[[nodiscard]] std::string given_config_text(const NanotronConfig& config);

}  // namespace weft
