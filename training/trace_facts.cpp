#include "weft/training/trace_facts.h"

#include <fmt/format.h>

#include "weft/model/ops/cpu/cpu_level.h"

namespace weft {

TraceFacts cost_facts(const NanotronConfig& config) {
  const ModelConfig& model = config.model.model_config;
  TraceFacts facts;
  for (const auto& [name, value] : {std::pair{"vocab_size", config.model.padded_vocab_size()},
                                    {"hidden_size", model.hidden_size},
                                    {"intermediate_size", model.intermediate_size},
                                    {"num_hidden_layers", model.num_hidden_layers},
                                    {"num_attention_heads", model.num_attention_heads},
                                    {"num_key_value_heads", model.key_value_heads()},
                                    {"head_dim", model.head_size()},
                                    {"sequence_length", config.tokens.sequence_length},
                                    {"micro_batch_size", config.tokens.micro_batch_size}})
    facts[name] = std::to_string(value);
  facts["dtype"] = std::string(dtype_name(config.model.dtype));
  facts["recompute_layer"] = config.parallelism.recompute_layer ? "true" : "false";
  facts["kernels"] = std::string(cpu::name(cpu::cpu_level()));
  return facts;
}

std::string differing_facts(const TraceFacts& trace, const TraceFacts& here) {
  std::string text;
  for (const auto& [name, value] : trace) {
    const auto own = here.find(name);
    if (own == here.end() || own->second == value) continue;
    text +=
        fmt::format("{}{} is {} in the trace, {} here", text.empty() ? "" : ", ", name, value, own->second);
  }
  return text;
}

}  // namespace weft
