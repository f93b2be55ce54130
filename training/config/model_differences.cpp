#include "weft/training/config/model_differences.h"

#include <fmt/format.h>

#include <string_view>

namespace weft {
namespace {

std::string_view rope_name(RopeType type) {
  switch (type) {
    case RopeType::linear:
      return "linear";
    case RopeType::llama3:
      return "llama3";
    case RopeType::standard:
      break;
  }
  return "default";
}

}  // namespace

std::vector<KeyDifference> model_differences(const LlamaArchitecture& a, const LlamaArchitecture& b) {
  std::vector<KeyDifference> differences;
  const auto compare = [&](std::string_view key, const auto& first, const auto& second) {
    if (first != second)
      differences.push_back(
          {fmt::format("model.model_config.{}", key), fmt::format("{}", first), fmt::format("{}", second)});
  };
  compare("vocab_size", a.vocab_size, b.vocab_size);
  compare("hidden_size", a.hidden_size, b.hidden_size);
  compare("intermediate_size", a.intermediate_size, b.intermediate_size);
  compare("num_hidden_layers", a.num_hidden_layers, b.num_hidden_layers);
  compare("num_attention_heads", a.num_attention_heads, b.num_attention_heads);
  compare("num_key_value_heads", a.key_value_heads(), b.key_value_heads());
  compare("head_dim", a.head_size(), b.head_size());
  compare("rms_norm_eps", a.rms_norm_eps, b.rms_norm_eps);
  compare("rope_theta", a.rope_theta, b.rope_theta);
  compare("tie_word_embeddings", a.tie_word_embeddings, b.tie_word_embeddings);
  compare("attention_bias", a.attention_bias, b.attention_bias);
  const RopeScaling& x = a.rope_scaling;
  const RopeScaling& y = b.rope_scaling;
  compare("rope_scaling.rope_type", rope_name(x.type), rope_name(y.type));
  if (x.type != y.type || x.type == RopeType::standard) return differences;
  compare("rope_scaling.factor", x.factor, y.factor);
  if (x.type != RopeType::llama3) return differences;
  compare("rope_scaling.low_freq_factor", x.low_freq_factor, y.low_freq_factor);
  compare("rope_scaling.high_freq_factor", x.high_freq_factor, y.high_freq_factor);
  compare("rope_scaling.original_max_position_embeddings", x.original_max_position_embeddings,
          y.original_max_position_embeddings);
  return differences;
}

}  // namespace weft
