#pragma once
// AdamW (Loshchilov and Hutter 2019), with bias correction and in the order of operations of PyTorch.
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "weft/actors/optimizer.h"
#include "weft/model/optimizer/ops_by_type.h"

namespace weft {

/// The learning rate of a step; the first step is 1.
using LearningRate = std::function<double(std::uint64_t step)>;

struct AdamWConfig {
  LearningRate learning_rate;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 0.01;  ///< of parameters whose `weight_decay` is set
  int threads = 1;
};

class AdamWOptimizer final : public Optimizer {
 public:
  /// Throws Error on a beta outside [0, 1), a negative epsilon or weight decay, or no learning rate.
  explicit AdamWOptimizer(AdamWConfig config);

  [[nodiscard]] std::size_t state_bytes(std::span<Parameter* const> parameters) const override;
  void allocate(std::span<Parameter* const> parameters, Arena& state, Queue& queue) override;
  void update(std::uint64_t step, double gradient_scale) override;
  [[nodiscard]] double learning_rate(std::uint64_t step) const override {
    return config_.learning_rate(step);
  }
  [[nodiscard]] std::vector<OptimizerState> state() override;

 private:
  struct Entry {
    Parameter* parameter;
    float* first;  // moments
    float* second;
  };
  AdamWConfig config_;
  std::vector<Entry> entries_;
  std::optional<OpsByType> ops_;  // from allocate on
};

}  // namespace weft
