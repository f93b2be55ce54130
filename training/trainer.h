#pragma once
// Training a Llama from a configuration.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"
#include "weft/training/llama.h"
#include "weft/training/run_folder.h"
#include "weft/training/step_log.h"
#include "weft/training/trace_steps.h"

namespace weft {

/// How to start.
struct TrainerOptions {
  std::optional<std::string> run_dir;  ///< --run-dir; none = runs/<general.run>
  std::string resume;                  ///< "", "auto", "latest" or a folder
  std::optional<std::string>
      trace;               ///< --trace: where to write the Chrome trace; a bare name lies in the run's folder
  TraceSteps trace_steps;  ///< which steps it shall hold
  ConfigSources sources;   ///< places of keys, for messages
  // Asked once a step; a launcher's stop request counts as well.
  std::function<bool()> stop_requested;  ///< true: stop after this step, with a checkpoint
  std::function<bool()> save_requested;  ///< true: save and go on; asking takes the request back
};

/// How a training ended, and where.
struct RunResult : RunOutcome {
  std::filesystem::path folder;  ///< the run's
};

/// What must be right before anything starts: the configuration as a whole, its data, the run's folder and
/// that of its checkpoints, the checkpoint to go on from. Makes nothing.
/// Throws ConfigError.
void check_training(const NanotronConfig& config, const TrainerOptions& options);

/// Trains on this process's ranks: all of them as threads, or the one that a launcher made of this process
/// (WEFT_RANK is set).
class Trainer {
 public:
  Trainer(const NanotronConfig& config, const Llama& model, const OptimizerDescription& optimizer,
          TrainerOptions options = {});

  /// Runs all steps. Throws ConfigError before the first one, NonFiniteError, PeerFailure, Error during
  /// training.
  RunResult fit();

 private:
  const NanotronConfig& config_;
  const Llama& model_;
  const OptimizerDescription& optimizer_;
  TrainerOptions options_;
};

}  // namespace weft
