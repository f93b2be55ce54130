#pragma once
// The saves of a training: each rank writes its part beside the steps, rank 0 makes them a checkpoint.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "weft/actors/rank.h"
#include "weft/training/checkpoint/snapshot_writer.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/data/training_data.h"

namespace weft {

/// What all ranks know about where checkpoints go.
struct CheckpointPlace {
  std::filesystem::path folder;
  std::string attempt;     ///< different at every start of the run
  std::string model_base;  ///< a config.json whose other keys checkpoints keep
};

class CheckpointSaver {
 public:
  /// `data` is needed on rank 0. All must outlive this object. Memory is taken at the first save.
  /// `tell_saving` hears when a save begins and ends; may be empty.
  CheckpointSaver(Rank& rank, const NanotronConfig& config, const TrainingData* data, CheckpointPlace place,
                  std::function<void(bool)> tell_saving);

  /// Copies the state after `step` and begins to write it; the last save is ended first. Every rank calls it
  /// after the same step. Throws CheckpointError.
  void begin(std::uint64_t step);
  /// Waits until the save under way is a checkpoint; every rank calls it. Throws CheckpointError.
  void end();
  /// True when end() would not wait for this rank.
  [[nodiscard]] bool idle() const { return !saving_ || writer_->ready(); }
  [[nodiscard]] bool saving() const noexcept { return saving_; }
  /// True when `step` is the last one whose save was begun.
  [[nodiscard]] bool has_begun(std::uint64_t step) const noexcept { return step_ == step; }
  /// The checkpoint that the run went on from stands for a save of that step.
  void take_as_saved(std::uint64_t step) noexcept { step_ = step; }

 private:
  void commit(const std::vector<std::string>& texts) const;
  void set_saving(bool saving);

  Rank& rank_;
  const NanotronConfig& config_;
  const TrainingData* data_;
  CheckpointPlace place_;
  std::function<void(bool)> tell_saving_;
  std::vector<OptimizerState> states_;
  std::unique_ptr<SnapshotWriter> writer_;
  bool saving_ = false;
  std::uint64_t step_ = UINT64_MAX;
};

}  // namespace weft
