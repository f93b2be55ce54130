#pragma once
// What a Llama is and how it is trained: the plain numbers.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/tensor/dtype.h"

namespace weft {

enum class RopeType : std::uint8_t { standard, linear, llama3 };

/// Hugging Face's `rope_scaling`.
struct RopeScaling {
  RopeType type = RopeType::standard;
  double factor = 1;
  double low_freq_factor = 1;  ///< llama3, as the two below
  double high_freq_factor = 4;
  std::uint64_t original_max_position_embeddings = 8192;
  bool operator==(const RopeScaling&) const = default;
};

/// The architecture, by the names that Hugging Face and Nanotron share; the defaults are those of the 7B
/// model.
struct LlamaArchitecture {
  std::uint32_t vocab_size = 32000;
  std::uint32_t hidden_size = 4096;
  std::uint32_t intermediate_size = 11008;
  std::uint32_t num_hidden_layers = 32;
  std::uint32_t num_attention_heads = 32;
  std::optional<std::uint32_t> num_key_value_heads;  ///< none = num_attention_heads
  std::optional<std::uint32_t> head_dim;             ///< none = hidden_size / num_attention_heads
  std::uint32_t max_position_embeddings = 2048;      ///< kept for exports; weft's positions have no limit
  double rms_norm_eps = 1e-6;
  double rope_theta = 10000;
  RopeScaling rope_scaling;
  bool tie_word_embeddings = false;
  bool attention_bias = false;  ///< biases of q_proj, k_proj, v_proj and o_proj
  bool operator==(const LlamaArchitecture&) const = default;

  [[nodiscard]] std::uint32_t key_value_heads() const noexcept {
    return num_key_value_heads.value_or(num_attention_heads);
  }
  [[nodiscard]] std::uint32_t head_size() const noexcept {
    return head_dim.value_or(num_attention_heads > 0 ? hidden_size / num_attention_heads : 0);
  }
  /// Columns of all queries, and of all keys (as many as of all values).
  [[nodiscard]] std::uint64_t query_columns() const noexcept {
    return std::uint64_t{num_attention_heads} * head_size();
  }
  [[nodiscard]] std::uint64_t key_columns() const noexcept {
    return std::uint64_t{key_value_heads()} * head_size();
  }
};

/// The architecture, initial weights, and sizes of a run.
struct LlamaConfig : LlamaArchitecture {
  LlamaConfig() = default;
  explicit LlamaConfig(const LlamaArchitecture& architecture) : LlamaArchitecture(architecture) {}

  DType dtype = DType::float32;  ///< of parameters, activations and messages: float32 or bfloat16

  std::uint64_t seed = 42;
  double init_std = 0.02;
  bool init_scaled_by_layers = true;  ///< o_proj and down_proj: std / sqrt(2 * layers), as Nanotron does
  /// Regular expressions: see DecayExclusion.
  std::vector<std::string> weight_decay_exclude;

  std::uint32_t sequence_length = 0;
  std::uint32_t micro_batch_size = 1;
  bool recompute_layer =
      false;        ///< keep only the inputs of layers and compute the rest again in the backward
  int threads = 1;  ///< of a rank
};

/// Throws Error, naming the first value that does not fit: a zero size, heads that key heads do not divide,
/// an odd head_dim, a dtype other than float32 and bfloat16, a bad regular expression, sizes that overflow.
void check(const LlamaConfig& config);

/// The frequencies of the rotary embedding, head_dim / 2, after scaling (as Hugging Face's
/// `default`, `linear` and `llama3`).
[[nodiscard]] std::vector<float> rope_frequencies(const LlamaArchitecture& config);

}  // namespace weft
