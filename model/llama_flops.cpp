#include "weft/model/llama_flops.h"

namespace weft {

double layer_flops_per_token(const LlamaArchitecture& model, double sequence) {
  const auto hidden = static_cast<double>(model.hidden_size);
  const auto ffn = static_cast<double>(model.intermediate_size);
  const auto query = static_cast<double>(model.query_columns());
  const auto key_value = static_cast<double>(model.key_columns());
  return 2 * hidden * query + 4 * hidden * key_value + 4 * sequence * query + 2 * query * hidden +
         6 * hidden * ffn;
}

double head_flops_per_token(const LlamaArchitecture& model) {
  return 2 * static_cast<double>(model.hidden_size) * static_cast<double>(model.vocab_size);
}

}  // namespace weft
