#include "weft/training/model_flops.h"

namespace weft {

double layer_flops_per_token(const ModelConfig& model, double sequence) {
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto ffn = static_cast<double>(model.intermediate_size);
  const auto query = static_cast<double>(model.num_attention_heads * model.head_size());
  const auto key_value = static_cast<double>(model.key_value_heads() * model.head_size());
  return 2 * hidden * query + 4 * hidden * key_value + 4 * sequence * query + 2 * query * hidden +
         6 * hidden * ffn;
}

double head_flops_per_token(const ModelArgs& model) {
  return 2 * static_cast<double>(model.model_config.hidden_size) *
         static_cast<double>(model.padded_vocab_size());
}

double step_flops(const NanotronConfig& config) {
  const auto sequence = static_cast<double>(config.tokens.sequence_length);
  const auto samples = static_cast<double>(config.tokens.samples_per_step());
  const auto layers = static_cast<double>(config.model.model_config.num_hidden_layers);
  const double per_token = layers * layer_flops_per_token(config.model.model_config, sequence) +
                           head_flops_per_token(config.model);
  return 3 * samples * sequence * per_token;
}

}  // namespace weft
