#include "weft/training/llama.h"

#include "weft/model/llama/llama_stage.h"
#include "weft/model/optimizer/adamw.h"
#include "weft/model/optimizer/sgd.h"
#include "weft/training/learning_rate.h"

namespace weft {
namespace {

RopeScaling rope_scaling(const RopeScalingConfig& config) {
  RopeScaling scaling;
  switch (config.rope_type) {
    case RopeScalingType::none:
      scaling.type = RopeType::standard;
      break;
    case RopeScalingType::linear:
      scaling.type = RopeType::linear;
      break;
    case RopeScalingType::llama3:
      scaling.type = RopeType::llama3;
      break;
  }
  scaling.factor = config.factor;
  scaling.low_freq_factor = config.low_freq_factor;
  scaling.high_freq_factor = config.high_freq_factor;
  scaling.original_max_position_embeddings = static_cast<double>(config.original_max_position_embeddings);
  return scaling;
}

std::uint32_t u32(std::int64_t value) { return static_cast<std::uint32_t>(value); }

LearningRate schedule_of(const NanotronConfig& config) {
  return [config](std::uint64_t step) { return learning_rate(config, step); };
}

}  // namespace

Llama::Llama(const NanotronConfig& config) {
  const ModelConfig& model = config.model.model_config;
  config_.vocab_size = u32(config.model.padded_vocab_size());
  config_.hidden_size = u32(model.hidden_size);
  config_.intermediate_size = u32(model.intermediate_size);
  config_.num_hidden_layers = u32(model.num_hidden_layers);
  config_.num_attention_heads = u32(model.num_attention_heads);
  config_.num_key_value_heads = u32(model.key_value_heads());
  config_.head_dim = u32(model.head_size());
  config_.rms_norm_eps = model.rms_norm_eps;
  config_.rope_theta = model.rope_theta;
  config_.rope_scaling = rope_scaling(model.rope_scaling);
  config_.tie_word_embeddings = model.tie_word_embeddings;
  config_.attention_bias = model.attention_bias;
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
