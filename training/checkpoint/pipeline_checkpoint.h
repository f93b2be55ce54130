#pragma once
// Saving and loading for programs that embed a weft::Pipeline, whatever number of ranks and processes it has.
#include <filesystem>

#include "weft/actors/pipeline.h"
#include "weft/training/checkpoint/manifest.h"

namespace weft {

/// Saves parameters and optimizer state of all ranks as the checkpoint of pipeline.steps() in the folder
/// `checkpoints` (made if it is missing), as `weft train` does: whole or not at all, one of the same step is
/// replaced. `position` says what else a resume needs (samples, configuration, ...); its step is set here,
/// and its optimizer, if it is empty, to `own`. All processes call it between the same steps and see the same
/// folder. Returns the checkpoint's folder. Throws CheckpointError, in all processes alike, when it cannot be
/// written; the pipeline and the checkpoints before it are as they were.
std::filesystem::path save_checkpoint(Pipeline& pipeline, const std::filesystem::path& checkpoints,
                                      TrainingPosition position = {});

/// Puts back every bit of what save_checkpoint saved, whatever ranks saved it: `path` is a checkpoint or a
/// folder of them, whose newest valid one is taken. The pipeline's next step is the one after it. All
/// processes call it. Returns the saved position. Throws CheckpointError, in all processes alike, when there
/// is none or it belongs to another model; parameters may be partly loaded then.
TrainingPosition load_checkpoint(Pipeline& pipeline, const std::filesystem::path& path);

}  // namespace weft
