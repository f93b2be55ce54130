#pragma once
// Which checkpoint a run goes on from.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/training/checkpoint/checkpoint_search.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"

namespace weft {

/// What the command line says about going on with a run.
struct ResumeRequest {
  std::optional<std::string> run_dir;  ///< --run-dir
  std::string resume;                  ///< --resume: "", "auto", "latest" or a folder
};

/// The checkpoint, and what is taken from it.
struct ResumePoint {
  FoundCheckpoint checkpoint;
  bool own = false;                  ///< it lies in the run's own folder of checkpoints
  bool whole = false;                ///< everything; else a new run at step 1 takes the weights alone
  std::vector<std::string> skipped;  ///< one line for each damaged one that was passed over

  [[nodiscard]] std::uint64_t steps_done() const noexcept {
    return whole ? checkpoint.manifest.position.step : 0;
  }
};

/// True when flag or configuration name a checkpoint to go on from.
[[nodiscard]] bool wants_resume(const NanotronConfig& config, const ResumeRequest& request) noexcept;

/// True when all steps of the configuration are done there.
[[nodiscard]] bool is_finished(const ResumePoint& point, const NanotronConfig& config) noexcept;

/// `auto`: the newest valid one of the run's own folder of checkpoints, else
/// checkpoints.resume_checkpoint_path, else none. `latest`: the newest of its own. A folder, or without flag
/// resume_checkpoint_path: the one it names. Weights alone are taken where the checkpoint holds no more, or
/// where load_optimizer and load_lr_scheduler are both false; a run that goes on with its own newest is
/// always taken whole. Files are hashed. Throws CheckpointError when there is
/// none where one is wanted.
[[nodiscard]] std::optional<ResumePoint> verified_resume_point(const NanotronConfig& config,
                                                               const ResumeRequest& request);

/// The same by manifests and sizes of files alone, before anything starts. Throws ConfigError, naming flag or
/// key, also when only one of load_optimizer and load_lr_scheduler is false.
[[nodiscard]] std::optional<ResumePoint> expected_resume_point(const NanotronConfig& config,
                                                               const ResumeRequest& request,
                                                               const ConfigSources& sources = {});

}  // namespace weft
