#pragma once
// Where the first stage's inputs and the last stage's targets come from.
#include <cstdint>

#include "weft/base/phase.h"
#include "weft/tensor/tensor.h"

namespace weft {

/// The data of one step. The first stage's rank asks for inputs, the last one's for targets, no other rank
/// for anything.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Data of micro-batch `microbatch`; stays valid and unchanged until the step ends.
  virtual const TensorList& inputs(std::uint32_t microbatch) = 0;
  virtual const TensorList& targets(std::uint32_t microbatch) = 0;
};

/// Empty lists: for ranks between the first stage and the last, and for stages without data.
class NoBatches final : public BatchSource {
 public:
  const TensorList& inputs(std::uint32_t) override { return none_; }
  const TensorList& targets(std::uint32_t) override { return none_; }

 private:
  TensorList none_;
};

}  // namespace weft
