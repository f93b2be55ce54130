#pragma once
// Plain stochastic gradient descent, as PyTorch's SGD without momentum.
#include <optional>
#include <span>
#include <vector>

#include "weft/actors/optimizer.h"
#include "weft/model/optimizer/adamw.h"

namespace weft {

struct SgdConfig {
  LearningRate learning_rate;
  double weight_decay = 0;  ///< added to the gradient, for parameters whose `weight_decay` is set
  int threads = 1;
};

class SgdOptimizer final : public Optimizer {
 public:
  /// Throws Error on a negative weight decay or no learning rate.
  explicit SgdOptimizer(SgdConfig config);

  [[nodiscard]] std::size_t state_bytes(std::span<Parameter* const>) const override { return 0; }
  void allocate(std::span<Parameter* const> parameters, Arena& state, Queue& queue) override;
  void update(std::uint64_t step, double gradient_scale) override;
  [[nodiscard]] double learning_rate(std::uint64_t step) const override {
    return config_.learning_rate(step);
  }
  [[nodiscard]] std::vector<OptimizerState> state() override { return {}; }

 private:
  SgdConfig config_;
  std::vector<Parameter*> parameters_;
  std::optional<OpsByType> ops_;  // from allocate on
};

}  // namespace weft
