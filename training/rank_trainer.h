#pragma once
// One rank's side of a training: the loop over steps, and what happens between them.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "weft/actors/rank.h"
#include "weft/training/checkpoint/reader.h"
#include "weft/training/checkpoint/snapshot_writer.h"
#include "weft/training/data/token_batches.h"
#include "weft/training/data/training_data.h"
#include "weft/training/run_folder.h"
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
  bool one_process_per_rank = false;
};

class RankTrainer {
 public:
  /// Takes all memory of the rank.
  RankTrainer(const TrainingSetup& setup, std::uint32_t rank, Transport& transport, Nanoseconds spin);

  /// Everything: run folder, resume, steps, evaluation, checkpoints, the weights' hash, result.json.
  RunResult run();
  [[nodiscard]] Rank& rank() noexcept { return rank_; }

 private:
  void open_folder();
  void resume();
  std::optional<double> evaluate(std::uint64_t step);
  void after_step(std::uint64_t step, const StepReport& report);
  void begin_save(std::uint64_t step);
  void end_save();
  void write_trace();
  std::string hash_weights();
  void compare_data(const TrainingPosition& saved) const;
  [[nodiscard]] TrainingPosition position(std::uint64_t step) const;
  [[nodiscard]] bool has_first_stage() const;
  [[nodiscard]] bool has_last_stage() const;

  const TrainingSetup& setup_;
  Rank rank_;
  std::optional<TrainingData> data_;
  std::optional<TokenBatches> batches_;
  std::unique_ptr<RunFolder> folder_;             // on rank 0
  std::unique_ptr<FolderLock> checkpoints_lock_;  // on rank 0, for a folder outside the run's
  std::filesystem::path path_;                    // the run's folder
  std::unique_ptr<StepLog> log_;                  // on the last stage's rank
  std::vector<OptimizerState> states_;
  std::unique_ptr<SnapshotWriter> writer_;
  bool saving_ = false;
  std::uint64_t first_step_ = 1;
  std::uint64_t passes_ = 0;               // evaluations so far
  std::uint64_t saved_step_ = UINT64_MAX;  // of the last checkpoint begun or resumed from
  std::string attempt_;
  std::string model_base_ = "{}";  // config.json whose other keys checkpoints keep
  std::vector<TraceEvent> events_;
};

}  // namespace weft
