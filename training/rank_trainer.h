#pragma once
// One rank's side of a training: the loop over steps, and what happens between them.
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "weft/actors/rank.h"
#include "weft/training/checkpoint_saver.h"
#include "weft/training/data/token_batches.h"
#include "weft/training/data/training_data.h"
#include "weft/training/run_folder.h"
#include "weft/training/run_trace.h"
#include "weft/training/step_log.h"
#include "weft/training/trainer.h"

namespace weft {

/// What all ranks of a training share, unchanged while it runs.
struct TrainingSetup {
  const NanotronConfig& config;
  const TrainerOptions& options;
  const PipelinePlan& plan;
  StageFactory stages;
  OptimizerFactory optimizer;
  std::function<bool()> stop_requested;
  std::function<void(std::uint32_t rank, std::exception_ptr)>
      tell_failure;  ///< to the launcher or the other ranks
  std::function<void(bool)>
      tell_saving;  ///< to the launcher, at the start and end of a save; empty without one
  bool one_process_per_rank = false;
};

class RankTrainer {
 public:
  /// Takes all memory of the rank.
  RankTrainer(const TrainingSetup& setup, std::uint32_t rank, Transport& transport, Nanoseconds spin);

  /// Everything: run folder, resume, steps, evaluation, checkpoints, the weights' hash, result.json (of a
  /// failure that begins on this rank, too). A run whose steps are all done says so and gets a result.json
  /// when it has none; nothing else is written.
  RunResult run();
  [[nodiscard]] Rank& rank() noexcept { return rank_; }

 private:
  // What rank 0 has found, the same on all ranks.
  struct Start {
    std::string checkpoint;  // empty: begins at step 1
    bool whole = false;
    bool finished = false;
    bool resuming = false;
    std::vector<std::string> skipped;  // on rank 0
  };
  Start agree_on_start();
  RunResult finish_again(const Start& start);
  RunResult train(const Start& start);
  void open_data();
  void log_start() const;
  void open_folder(const Start& start);
  void load_start(const Start& start);
  void open_saver(std::string model_base);
  std::optional<double> evaluate(std::uint64_t step);
  void after_step(std::uint64_t step, const StepReport& report);
  std::string hash_weights();
  void note_failure(const char* what) const noexcept;
  [[nodiscard]] bool has_first_stage() const;
  [[nodiscard]] bool has_last_stage() const;

  const TrainingSetup& setup_;
  Rank rank_;
  std::optional<TrainingData> data_;
  std::optional<TokenBatches> batches_;
  std::unique_ptr<RunFolder> folder_;  // on rank 0
  std::filesystem::path path_;         // the run's folder, once it is open
  std::unique_ptr<StepLog> log_;       // on the last stage's rank
  std::optional<CheckpointSaver> saver_;
  std::uint64_t first_step_ = 1;
  std::uint64_t steps_ = 0;   // done so far
  std::uint64_t passes_ = 0;  // evaluations so far
  std::string attempt_;
  std::optional<RunTrace> trace_;
};

}  // namespace weft
