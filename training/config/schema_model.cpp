// The `model` block: Nanotron's keys for Llama models, and by name what weft cannot compute.
#include <fmt/format.h>

#include "weft/training/config/scalar.h"
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
      {"is_mamba_config", not_supported("Mamba models, only Llama", {"false"})},
      {"is_llamoe_config", not_supported("mixture of experts", {"false"})},
      {"moe_num_experts", not_supported("mixture of experts", {"1"})},
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
      {"interleaved_rotary", not_supported("interleaved rotary embedding", {"false"})},  // the older spelling
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
      {"init_method", block(init_method(c.init_method)), for_training},
      {"make_vocab_size_divisible_by", integer(c.make_vocab_size_divisible_by, {1, most_tokens})},
      {"model_config", block(model_config(c.model_config))},
      {"ddp_bucket_cap_mb", without_effect(Kind::integer)},
  };
}

/// Says first of all that the file describes another kind of model; most else would only follow from that.
void tell_other_model(const Node& node, const std::string& path, const std::string& init_path,
                      Reading& reading) {
  if (node.kind != Node::Kind::block) return;
  struct Kind {
    std::string_view key;
    std::string_view model;
    std::string_view feature;
    std::string_view allowed;
    bool is_like_llama;  // its other keys are those of a Llama
  };
  constexpr Kind kinds[] = {
      {"is_mamba_config", "a Mamba model", "Mamba models, only Llama", "false", false},
      {"is_llamoe_config", "a mixture of experts", "mixture of experts", "false", false},
      {"moe_config", "a mixture of experts", "mixture of experts", "null", false},
      {"moe_num_experts", "a mixture of experts", "mixture of experts", "1", false},
      {"is_starcoder2_config", "a Starcoder2 model", "Starcoder2 models, only Llama", "false", false},
      {"is_qwen2_config", "a Qwen2 model", "Qwen2 models, only Llama", "false", true}};
  for (const Kind& kind : kinds) {
    const Node* value = node.find(kind.key);
    if (value == nullptr || value->is_null() || value->text == kind.allowed ||
        (value->kind == Node::Kind::scalar && parse_boolean(value->text) == false))
      continue;
    const std::string key = join(path, kind.key);
    reading.complaints.add_first(config_error(
        value->source, key,
        fmt::format("the model is {}, which is not supported: weft has no {}", kind.model, kind.feature),
        kind.allowed));
    reading.complaints.give_up(kind.is_like_llama ? key : path);
    if (!kind.is_like_llama) reading.complaints.give_up(init_path);
    return;
  }
}

}  // namespace

Value model_value(ModelArgs& c) {
  const Value all = block(model(c));
  return {[all, &c](const Node& node, const std::string& path, Reading& reading) {
            const std::string init_path = join(path, "init_method");
            const Node* architecture = node.find("model_config");
            const bool has_architecture = architecture != nullptr && !architecture->is_null();
            if (has_architecture)
              tell_other_model(*architecture, join(path, "model_config"), init_path, reading);
            all.read(node, path, reading);
            const bool one = c.init_method.std.has_value() != c.init_method.path.has_value();
            const bool none = !c.init_method.std && !c.init_method.path;
            const bool may_have_none = reading.use == ConfigUse::plan;
            if (!one && !(none && may_have_none) && reading.complaints.is_sound(init_path)) {
              reading.complaints.add(
                  config_error(reading.sources.find(init_path), init_path,
                               none ? "names no way to get the weights" : "names both std and path",
                               "exactly one of std, path"));
              reading.complaints.give_up(init_path);
            }
            if (!c.init_method.path && !has_architecture) {
              const std::string model_path = join(path, "model_config");
              if (!reading.complaints.is_sound(init_path)) return;  // it may have named a path
              if (!reading.complaints.is_excused(model_path))
                reading.complaints.add(config_error(node.source, model_path, "is missing"));
              reading.complaints.give_up(model_path);
            }
          },
          all.write, all.inside};
}

}  // namespace weft::schema
