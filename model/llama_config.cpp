#include "weft/model/llama_config.h"

#include <cmath>
#include <numbers>
#include <regex>

#include "weft/base/error.h"

namespace weft {
namespace {

void need(bool holds, const std::string& what) {
  if (!holds) throw Error(what);
}

void check_rope(const LlamaArchitecture& config) {
  const RopeScaling& scaling = config.rope_scaling;
  need(std::isfinite(config.rope_theta) && config.rope_theta > 0, "rope_theta must be above 0");
  if (scaling.type == RopeType::standard) return;
  need(std::isfinite(scaling.factor) && scaling.factor > 0, "rope_scaling.factor must be above 0");
  if (scaling.type == RopeType::linear) return;
  need(scaling.low_freq_factor > 0 && scaling.high_freq_factor > scaling.low_freq_factor &&
           std::isfinite(scaling.high_freq_factor),
       "rope_scaling.high_freq_factor must be above low_freq_factor, and that above 0");
  need(scaling.original_max_position_embeddings > 0,
       "rope_scaling.original_max_position_embeddings must be above 0");
}

}  // namespace

void check(const LlamaConfig& config) {
  const auto positive = [](std::uint64_t value, const char* name) {
    need(value > 0, std::string(name) + " must be above 0");
    need(value < (1u << 28), std::string(name) + " is too large: " + std::to_string(value));
  };
  positive(config.vocab_size, "vocab_size");
  positive(config.hidden_size, "hidden_size");
  positive(config.intermediate_size, "intermediate_size");
  positive(config.num_hidden_layers, "num_hidden_layers");
  positive(config.num_attention_heads, "num_attention_heads");
  positive(config.key_value_heads(), "num_key_value_heads");
  positive(config.head_size(), "head_dim");
  positive(config.sequence_length, "sequence_length");
  positive(config.micro_batch_size, "micro_batch_size");
  need(config.num_attention_heads % config.key_value_heads() == 0,
       "num_attention_heads (" + std::to_string(config.num_attention_heads) +
           ") is not a multiple of num_key_value_heads (" + std::to_string(config.key_value_heads()) + ")");
  need(config.head_size() % 2 == 0, "head_dim must be even, not " + std::to_string(config.head_size()));
  need(config.query_columns() < (1u << 28), "the attention is too wide");
  need(std::uint64_t{config.micro_batch_size} * config.sequence_length < (1u << 28),
       "micro_batch_size times sequence_length is too large");
  need(std::isfinite(config.rms_norm_eps) && config.rms_norm_eps >= 0, "rms_norm_eps must not be negative");
  need(std::isfinite(config.init_std) && config.init_std >= 0, "init_method.std must not be negative");
  need(config.dtype == DType::float32 || config.dtype == DType::bfloat16,
       "dtype must be float32 or bfloat16, not " + std::string(dtype_name(config.dtype)));
  need(config.threads >= 1 && config.threads <= 1024, "threads must be between 1 and 1024");
  check_rope(config);
  for (const std::string& pattern : config.weight_decay_exclude) try {
      const std::regex expression(pattern);
    } catch (const std::regex_error&) {
      throw Error("weight_decay_exclude_named_params: \"" + pattern + "\" is not a regular expression");
    }
}

std::vector<float> rope_frequencies(const LlamaArchitecture& config) {
  const RopeScaling& scaling = config.rope_scaling;
  std::vector<float> frequencies(config.head_size() / 2);
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const float exponent = static_cast<float>(2 * i) / static_cast<float>(config.head_size());
    double frequency = static_cast<float>(1 / std::pow(config.rope_theta, static_cast<double>(exponent)));
    if (scaling.type == RopeType::linear) frequency /= scaling.factor;
    if (scaling.type == RopeType::llama3) {
      // Short waves stay, long ones are stretched by the factor, between them it is blended.
      const double turns =
          static_cast<double>(scaling.original_max_position_embeddings) * frequency / (2 * std::numbers::pi);
      if (turns < scaling.low_freq_factor) {
        frequency /= scaling.factor;
      } else if (turns <= scaling.high_freq_factor) {
        const double smooth =
            (turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor);
        frequency = (1 - smooth) * frequency / scaling.factor + smooth * frequency;
      }
    }
    frequencies[i] = static_cast<float>(frequency);
  }
  return frequencies;
}

}  // namespace weft
