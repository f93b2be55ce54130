#include "weft/model/llama/decay_exclusion.h"

#include <regex>
#include <utility>

namespace weft {

struct DecayExclusion::Patterns {
  std::vector<std::regex> all;
};

std::string nanotron_name(std::string_view name) {
  if (name == "model.embed_tokens.weight")
    return "model.token_position_embeddings.pp_block.token_embedding.weight";
  if (name == "model.norm.weight") return "model.final_layer_norm.pp_block.weight";
  if (name == "lm_head.weight") return "model.lm_head.pp_block.weight";
  constexpr std::string_view layers = "model.layers.";
  if (!name.starts_with(layers)) return {};
  name.remove_prefix(layers.size());
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return {};
  const std::string block = "model.decoder." + std::string(name.substr(0, dot)) + ".pp_block.";
  const std::string_view in_layer = name.substr(dot + 1);
  constexpr std::pair<std::string_view, std::string_view> parts[] = {
      {"input_layernorm.", "input_layernorm."}, {"post_attention_layernorm.", "post_attention_layernorm."},
      {"self_attn.q_proj.", "attn.qkv_proj."},  {"self_attn.k_proj.", "attn.qkv_proj."},
      {"self_attn.v_proj.", "attn.qkv_proj."},  {"self_attn.o_proj.", "attn.o_proj."},
      {"mlp.gate_proj.", "mlp.gate_up_proj."},  {"mlp.up_proj.", "mlp.gate_up_proj."},
      {"mlp.down_proj.", "mlp.down_proj."}};
  for (const auto& [hugging_face, nanotron] : parts)
    if (in_layer.starts_with(hugging_face))
      return block + std::string(nanotron) + std::string(in_layer.substr(hugging_face.size()));
  return {};
}

DecayExclusion::DecayExclusion(const std::vector<std::string>& patterns) {
  auto made = std::make_unique<Patterns>();
  for (const std::string& pattern : patterns) made->all.emplace_back(pattern);
  patterns_ = std::move(made);
}

DecayExclusion::~DecayExclusion() = default;

bool DecayExclusion::excludes(const std::string& stored_name) const {
  for (std::size_t i = 0; i < patterns_->all.size(); ++i)
    if (matches(i, stored_name)) return true;
  return false;
}

bool DecayExclusion::matches(std::size_t pattern, const std::string& stored_name) const {
  const auto matches_start_of = [&](const std::string& name) {
    return std::regex_search(name, patterns_->all[pattern], std::regex_constants::match_continuous);
  };
  if (matches_start_of(stored_name)) return true;
  const std::string other = nanotron_name(stored_name);
  return !other.empty() && matches_start_of(other);
}

}  // namespace weft
