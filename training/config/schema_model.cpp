// The `model` block: Nanotron's keys for Llama models, and by name what weft cannot compute.
#include "weft/training/config/schema_parts.h"

namespace weft::schema {
namespace {

constexpr std::int64_t largest_size = 1 << 20;
constexpr std::int64_t most_layers = 1 << 15;
constexpr NumberRange above_zero{.least = 0, .with_least = false};

Table rope_scaling(RopeScaling& c) {
  const auto type = [&c] {
    return choice(
        c.type,
        {{"default", RopeType::standard}, {"linear", RopeType::linear}, {"llama3", RopeType::llama3}});
  };
  return {
      {"type", {type().read, nullptr}},  // the older spelling
      {"rope_type", type()},
      {"factor", number(c.factor, above_zero)},
      {"low_freq_factor", number(c.low_freq_factor, above_zero)},
      {"high_freq_factor", number(c.high_freq_factor, above_zero)},
      {"original_max_position_embeddings", integer(c.original_max_position_embeddings, {1, most_tokens})},
  };
}

Table model_config(LlamaArchitecture& c) {
  return {
      {"moe_config", not_supported("mixture of experts")},
      {"sliding_window_size", not_supported("sliding window attention")},
      {"is_qwen2_config", not_supported("Qwen2 models, only Llama", {"false"})},
      {"is_starcoder2_config", not_supported("Starcoder2 models, only Llama", {"false"})},
      {"is_llama_config", not_supported("other models than Llama", {"true"})},
      {"vocab_size", integer(c.vocab_size, {1, most_tokens})},
      {"hidden_size", integer(c.hidden_size, {1, largest_size})},
      {"intermediate_size", integer(c.intermediate_size, {1, largest_size})},
      {"num_hidden_layers", integer(c.num_hidden_layers, {1, most_layers})},
      {"num_attention_heads", integer(c.num_attention_heads, {1, largest_size})},
      {"num_key_value_heads", optional_integer(c.num_key_value_heads, {1, largest_size})},
      {"head_dim", optional_integer(c.head_dim, {2, largest_size})},
      {"max_position_embeddings", integer(c.max_position_embeddings, {1, most_tokens})},
      {"rms_norm_eps", number(c.rms_norm_eps, above_zero)},
      {"rope_theta", number(c.rope_theta, above_zero)},
      {"rope_scaling", block(rope_scaling(c.rope_scaling))},
      {"attention_bias", boolean(c.attention_bias)},
      {"tie_word_embeddings", boolean(c.tie_word_embeddings)},
      {"hidden_act", not_supported("activation but SiLU", {"silu"})},
      {"rope_interleaved", not_supported("interleaved rotary embedding", {"false"})},
      {"pretraining_tp", not_supported("tensor parallelism", {"1"})},
      {"z_loss_enabled", not_supported("z-loss", {"false"})},
      {"rope_seq_len_interpolation_factor", not_supported("interpolation of positions by this key")},
      {"flex_attention_mask", not_supported("attention mask but the causal one")},
      {"no_rope_layer", not_supported("layers without rotary embedding")},
      {"_use_doc_masking", not_supported("attention mask but the causal one", {"false"})},
      {"z_loss_coefficient", without_effect(Kind::number)},
      {"bos_token_id", without_effect(Kind::integer)},
      {"eos_token_id", without_effect(Kind::integer)},
      {"pad_token_id", without_effect(Kind::integer)},
      {"initializer_range", without_effect(Kind::number)},
      {"use_cache", without_effect(Kind::boolean)},
      {"log_attn_probs", without_effect(Kind::boolean)},
      {"ring_attn_heads_k_stride", without_effect(Kind::integer)},
      {"_attn_implementation", without_effect(Kind::text)},
      {"_fused_rotary_emb", without_effect(Kind::boolean)},
      {"_fused_rms_norm", without_effect(Kind::boolean)},
      {"_use_qkv_packed", without_effect(Kind::boolean)},
  };
}

Table init_method(InitMethodConfig& c) {
  return {
      {"std", optional_number(c.std, {})},
      {"scaling_method",
       choice(c.scaling_method, {{"NUM_LAYERS", InitScaling::num_layers}, {"NONE", InitScaling::none}})},
      {"path", optional_path(c.path)},
      {"use_mup", not_supported("spectral muP", {"false"})},
  };
}

Table model(ModelArgs& c) {
  return {
      {"dtype", choice(c.dtype, {{"float32", DType::float32}, {"bfloat16", DType::bfloat16}})},
      {"init_method", block(init_method(c.init_method)), required},
      {"make_vocab_size_divisible_by", integer(c.make_vocab_size_divisible_by, {1, most_tokens})},
      {"model_config", block(model_config(c.model_config))},
      {"ddp_bucket_cap_mb", without_effect(Kind::integer)},
  };
}

}  // namespace

Value model_value(ModelArgs& c) {
  const Value all = block(model(c));
  return {[all, &c](const Node& node, const std::string& path, Reading& reading) {
            all.read(node, path, reading);
            const std::string init_path = join(path, "init_method");
            const Source source = reading.sources.find(init_path);
            if (c.init_method.std.has_value() == c.init_method.path.has_value()) {
              throw config_error(
                  source, init_path,
                  c.init_method.path ? "names both std and path" : "names no way to get the weights",
                  "exactly one of std, path");
            }
            const Node* architecture = node.find("model_config");
            if (!c.init_method.path && (architecture == nullptr || architecture->is_null())) {
              throw config_error(node.source, join(path, "model_config"), "is missing");
            }
          },
          all.write};
}

}  // namespace weft::schema
