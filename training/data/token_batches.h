#pragma once
// Training data as a pipeline wants them: token ids of micro-batches.
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/actors/batch_source.h"
#include "weft/training/data/training_data.h"

namespace weft {

/// Inputs and targets, int32 [micro_batch_size, sequence_length], of one step: the first and the last
/// sequence_length tokens of each sample; micro-batch k takes the step's samples from k x micro_batch_size
/// on. All memory is taken at the start; what a rank never asks for is never read.
class TokenBatches final : public BatchSource {
 public:
  /// `data` outlives it.
  TokenBatches(const NanotronConfig& config, const TrainingData& data);

  /// What is asked for from here on belongs to `step` (from 1).
  void begin_step(std::uint64_t step) noexcept { begin(step, false, 0); }
  /// What is asked for from here on belongs to validation batch `batch` after `step`.
  void begin_validation(std::uint64_t step, std::uint64_t batch) noexcept { begin(step, true, batch); }
  const TensorList& inputs(std::uint32_t microbatch) override;
  const TensorList& targets(std::uint32_t microbatch) override;

 private:
  /// One side of all micro-batches.
  struct Side {
    std::unique_ptr<std::int32_t[]> tokens;
    std::vector<TensorList> tensors;   // [micro-batch]
    std::vector<std::uint64_t> holds;  // [micro-batch]: whose data, by the number of begin(); 0 = nothing yet
    std::size_t first_token;           // of a sample
  };
  [[nodiscard]] Side make_side(std::size_t first_token) const;
  const TensorList& fill(Side& side, std::uint32_t microbatch);
  void begin(std::uint64_t step, bool validation, std::uint64_t batch) noexcept {
    step_ = step;
    validation_ = validation;
    batch_ = batch;
    ++begun_;
  }

  const TrainingData& data_;
  std::uint32_t micro_batch_size_;
  std::uint32_t sequence_length_;
  std::uint32_t microbatches_;
  std::uint64_t step_ = 0;
  std::uint64_t batch_ = 0;  // of a validation
  std::uint64_t begun_ = 0;
  bool validation_ = false;
  std::vector<std::int32_t> sample_;
  Side inputs_;
  Side targets_;
};

}  // namespace weft
