#pragma once
// `model.init_method.path`: training that starts from a Hugging Face folder.
#include <span>
#include <string>

#include "weft/actors/stage.h"
#include "weft/training/config/given_architecture.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/resume.h"

namespace weft {

/// For load_config: the architecture of a run that goes on is the checkpoint's, and the folder may be gone;
/// else it is the folder's.
[[nodiscard]] FindArchitecture resumed_architecture(ResumeRequest request);

/// Fills one rank's parameters from init_method.path; does nothing where it is not set. Throws
/// CheckpointError.
void load_given_weights(const NanotronConfig& config, std::span<Parameter* const> parameters);

/// The text of config.json in init_method.path, "{}" where that is not set. Throws CheckpointError.
[[nodiscard]] std::string given_config_text(const NanotronConfig& config);

}  // namespace weft
