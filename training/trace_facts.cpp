#include "weft/training/trace_facts.h"

#include <fmt/format.h>

#include "weft/model/ops/cpu/cpu_level.h"

namespace weft {

TraceFacts cost_facts(const NanotronConfig& config) {
  const auto& model = config.model.model_config;
  TraceFacts facts;
  const auto add = [&](const char* name, auto value) { facts[name] = std::to_string(value); };
  add("vocab_size", config.model.padded_vocab_size());
  add("hidden_size", model.hidden_size);
  add("intermediate_size", model.intermediate_size);
  add("num_hidden_layers", model.num_hidden_layers);
  add("num_attention_heads", model.num_attention_heads);
  add("num_key_value_heads", model.key_value_heads());
  add("head_dim", model.head_size());
  add("sequence_length", config.tokens.sequence_length);
  add("micro_batch_size", config.tokens.micro_batch_size);
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
