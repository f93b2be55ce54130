#pragma once
// Whether a run may start where it is told to, and go on from the checkpoint it is told to.
#include <string>
#include <vector>

#include "weft/training/resume.h"
#include "weft/training/run_folder.h"

namespace weft {

/// What about the run's folder, its folder of checkpoints and the checkpoint to go on from would keep the run
/// from starting: folders that cannot be made or written, that another run uses, or that hold what would be
/// overwritten; no checkpoint, or that of another model or optimizer. Makes and changes nothing. Throws
/// ConfigError, naming flag or key.
void check_start(const NanotronConfig& config, const ResumeRequest& request, const ConfigSources& sources);

/// A run that names no checkpoint by flag, and takes none of its own folder, is new in its folder.
[[nodiscard]] RunFolderRequest run_folder_request(const ResumeRequest& request,
                                                  const std::optional<ResumePoint>& point);

/// Throws ConfigError with the keys that differ and both values, unless the checkpoint's model is the
/// configuration's and, where everything is taken from it, also type, optimizer and samples per step are.
void require_same_training(const ResumePoint& point, const NanotronConfig& config,
                           const ConfigSources& sources = {});

/// `KEY: OLD -> NEW` for the settings of optimizer and tokens that have changed since the checkpoint, and
/// last the learning rate of the step before and of the first one, when the changes change that.
[[nodiscard]] std::vector<std::string> changed_settings(const Manifest& manifest,
                                                        const NanotronConfig& config);

}  // namespace weft
