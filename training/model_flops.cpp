#include "weft/training/model_flops.h"

#include "weft/model/llama_flops.h"

namespace weft {

double step_flops(const NanotronConfig& config) {
  const LlamaArchitecture model = config.model.architecture();
  const auto sequence = static_cast<double>(config.tokens.sequence_length);
  const auto samples = static_cast<double>(config.tokens.samples_per_step());
  const auto layers = static_cast<double>(model.num_hidden_layers);
  const double per_token = layers * layer_flops_per_token(model, sequence) + head_flops_per_token(model);
  return 3 * samples * sequence * per_token;
}

}  // namespace weft
