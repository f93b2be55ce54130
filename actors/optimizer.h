#pragma once
// The interface of optimizers; AdamW and SGD are in model/.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "weft/actors/stage.h"
#include "weft/tensor/arena.h"
#include "weft/tensor/queue.h"

namespace weft {

/// One state tensor of a parameter (for example AdamW's first moment), for checkpoints.
struct OptimizerState {
  std::string name;  ///< parameter name + "." + the state's name
  Shape shape;
  float* value = nullptr;
  Queue* queue = nullptr;  ///< as the parameter's

  [[nodiscard]] std::span<std::byte> value_bytes() const {
    return {reinterpret_cast<std::byte*>(value), shape.elements() * sizeof(float)};
  }
};

/// Updates the parameters of one rank. Element-wise, so that the result does not depend on where a parameter
/// lives.
class Optimizer {
 public:
  virtual ~Optimizer() = default;
  /// Bytes of lasting state for these parameters.
  [[nodiscard]] virtual std::size_t state_bytes(std::span<Parameter* const> parameters) const = 0;
  /// Takes the state (zero) for these parameters, all on the queue's device; called once. The queue outlives
  /// the optimizer.
  virtual void allocate(std::span<Parameter* const> parameters, Arena& state, Queue& queue) = 0;
  /// One update at `step` (the first is 1). Every gradient is multiplied by `gradient_scale` first
  /// (clipping), and set to zero afterwards.
  virtual void update(std::uint64_t step, double gradient_scale) = 0;
  /// The learning rate that update(step) uses, for the metrics.
  [[nodiscard]] virtual double learning_rate(std::uint64_t step) const = 0;
  [[nodiscard]] virtual std::vector<OptimizerState> state() = 0;
};

/// Makes the optimizer of one rank.
using OptimizerFactory = std::function<std::unique_ptr<Optimizer>()>;

}  // namespace weft
