#pragma once
// Descriptions of what is trained: the model and the optimizer of a configuration. Each rank makes only its
// own part of them.
#include <cstdint>
#include <vector>

#include "weft/actors/optimizer.h"
#include "weft/actors/stage.h"
#include "weft/model/llama_config.h"
#include "weft/training/config/nanotron_config.h"

namespace weft {

/// The Llama of a configuration.
class Llama {
 public:
  explicit Llama(const NanotronConfig& config);
  [[nodiscard]] const LlamaConfig& config() const noexcept { return config_; }
  /// Stages for this partition, each rank with `threads` threads.
  [[nodiscard]] StageFactory stages(std::vector<std::uint32_t> layers_per_stage, int threads) const;

 private:
  LlamaConfig config_;
};

/// The optimizer of a configuration with its learning-rate schedule, by name.
class OptimizerDescription {
 public:
  virtual ~OptimizerDescription() = default;
  /// One rank's optimizer, with `threads` threads.
  [[nodiscard]] virtual OptimizerFactory factory(int threads) const = 0;
};

class AdamW final : public OptimizerDescription {
 public:
  explicit AdamW(const NanotronConfig& config) : config_(config) {}
  [[nodiscard]] OptimizerFactory factory(int threads) const override;

 private:
  NanotronConfig config_;
};

class Sgd final : public OptimizerDescription {
 public:
  explicit Sgd(const NanotronConfig& config) : config_(config) {}
  [[nodiscard]] OptimizerFactory factory(int threads) const override;

 private:
  NanotronConfig config_;
};

/// The one that `optimizer.optimizer_factory.name` says.
[[nodiscard]] std::unique_ptr<OptimizerDescription> configured_optimizer(const NanotronConfig& config);

}  // namespace weft
