#include "weft/training/llama.h"

#include "weft/model/llama/llama_stage.h"
#include "weft/model/optimizer/adamw.h"
#include "weft/model/optimizer/sgd.h"
#include "weft/training/learning_rate.h"

namespace weft {
namespace {

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

LearningRate schedule_of(const NanotronConfig& config) {
  return [config](std::uint64_t step) { return learning_rate(config, step); };
}

}  // namespace

Llama::Llama(const NanotronConfig& config) : config_(config.model.architecture()) {
  config_.dtype = config.model.dtype;
  config_.seed = static_cast<std::uint64_t>(config.general.seed);
  config_.init_std = config.model.init_method.std.value_or(0.02);
  config_.init_scaled_by_layers = config.model.init_method.scaling_method == InitScaling::num_layers;
  config_.weight_decay_exclude = config.optimizer.weight_decay_exclude_named_params;
  config_.sequence_length = u32(config.tokens.sequence_length);
  config_.micro_batch_size = u32(config.tokens.micro_batch_size);
  config_.recompute_layer = config.parallelism.recompute_layer;
}

StageFactory Llama::stages(std::vector<std::uint32_t> layers_per_stage, int threads) const {
  LlamaConfig config = config_;
  config.threads = threads;
  return make_llama_stage_factory(config, std::move(layers_per_stage));
}

OptimizerFactory AdamW::factory(int threads) const {
  AdamWConfig adamw;
  adamw.learning_rate = schedule_of(config_);
  adamw.beta1 = config_.optimizer.optimizer_factory.adam_beta1;
  adamw.beta2 = config_.optimizer.optimizer_factory.adam_beta2;
  adamw.epsilon = config_.optimizer.optimizer_factory.adam_eps;
  adamw.weight_decay = config_.optimizer.weight_decay;
  adamw.threads = threads;
  return [adamw] { return std::make_unique<AdamWOptimizer>(adamw); };
}

OptimizerFactory Sgd::factory(int threads) const {
  SgdConfig sgd;
  sgd.learning_rate = schedule_of(config_);
  sgd.weight_decay = config_.optimizer.weight_decay;
  sgd.threads = threads;
  return [sgd] { return std::make_unique<SgdOptimizer>(sgd); };
}

std::unique_ptr<OptimizerDescription> configured_optimizer(const NanotronConfig& config) {
  if (config.optimizer.optimizer_factory.name == OptimizerKind::sgd) return std::make_unique<Sgd>(config);
  return std::make_unique<AdamW>(config);
}

}  // namespace weft
