#pragma once
// The data of a whole training: all stages, by optimizer step.
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/training/config/nanotron_config.h"
#include "weft/training/config/source.h"
#include "weft/training/data/dataset.h"

namespace weft {

/// The samples of every step. A data stage serves the steps from its first one to the next stage's; sample i
/// of step s is its dataset's sample (s - first step) x samples per step + i. So data depend on configuration
/// and step alone.
class TrainingData {
 public:
  /// Opens all datasets. Throws ConfigError, naming the key, for files that cannot be used or hold too few
  /// samples.
  explicit TrainingData(const NanotronConfig& config, const ConfigSources& sources = {});

  /// Reads all data once, so that a token outside the vocabulary is found before anything starts. Throws
  /// ConfigError.
  void check(const ConfigSources& sources) const;

  /// Writes sample `i` of `step` (from 1), sequence_length + 1 token ids. Throws Error.
  void read(std::uint64_t step, std::uint64_t i, std::span<std::int32_t> tokens) const;

  /// SHA-256 of all samples of `step`: the same exactly where configuration and files give the step the same
  /// data.
  [[nodiscard]] std::string fingerprint(std::uint64_t step) const;

  /// Batches (of a step's size) that an evaluation after `step` goes through: all of the held-out data, at
  /// most tokens.limit_val_batches where that is set; 0 when the configuration asks for no evaluation.
  [[nodiscard]] std::uint64_t validation_batches(std::uint64_t step) const;
  /// Writes sample `i` of validation batch `batch`, the same at every evaluation. Throws Error.
  void read_validation(std::uint64_t step, std::uint64_t batch, std::uint64_t i,
                       std::span<std::int32_t> tokens) const;

 private:
  struct Stage {
    std::uint64_t first_step;
    std::string key;  // that names its data
    std::unique_ptr<Dataset> dataset;
    std::unique_ptr<Dataset> validation;  // null without evaluation
    std::uint64_t validation_batches = 0;
  };
  void hold_out(Stage& opened, const NanotronConfig& config, std::size_t stage,
                const ConfigSources& sources) const;
  [[nodiscard]] const Stage& stage_of(std::uint64_t step) const;
  std::vector<Stage> stages_;  // by first step
  std::uint64_t samples_per_step_;
  std::uint64_t window_;
};

/// Opens all data and reads token files once. Throws ConfigError.
void check_training_data(const NanotronConfig& config, const ConfigSources& sources);

}  // namespace weft
