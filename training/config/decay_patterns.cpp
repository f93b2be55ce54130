#include "weft/training/config/decay_patterns.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/model/llama/decay_exclusion.h"
#include "weft/model/weights/hf_folder.h"

namespace weft {

void tell_patterns_without_effect(const NanotronConfig& config, const ConfigSources& sources,
                                  std::vector<std::string>& notices) {
  const std::vector<std::string>& patterns = config.optimizer.weight_decay_exclude_named_params;
  if (patterns.empty()) return;
  const DecayExclusion exclusion(patterns);
  const std::vector<LlamaTensor> tensors = llama_tensors(config.model.architecture());
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    if (std::any_of(tensors.begin(), tensors.end(),
                    [&](const LlamaTensor& tensor) { return exclusion.matches(i, tensor.name); }))
      continue;
    const std::string path = fmt::format("optimizer.weight_decay_exclude_named_params.{}", i);
    const bool names_tied_head = exclusion.matches(i, "lm_head.weight");
    notices.push_back(fmt::format(
        "{}{}: {} {}", sources.find(path).prefix(), path, in_quotes(patterns[i]),
        names_tied_head
            ? "names lm_head.weight alone, which is tied and goes by model.embed_tokens.weight: it "
              "changes nothing"
            : "names no parameter and changes nothing; parameters are called as in a Hugging Face "
              "checkpoint (model.embed_tokens.weight, model.layers.0.mlp.up_proj.weight) or as in "
              "Nanotron (model.decoder.0.pp_block.mlp.gate_up_proj.weight)"));
  }
}

}  // namespace weft
