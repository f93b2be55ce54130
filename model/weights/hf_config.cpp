#include "weft/model/weights/hf_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"
#include "weft/model/weights/json_input.h"

namespace weft {
namespace {

using nlohmann::json;

// Read, or compared with what weft does, by name.
// clang-format off
constexpr std::array<std::string_view, 28> understood{
    "model_type", "architectures", "vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
    "num_attention_heads", "num_key_value_heads", "head_dim", "rms_norm_eps", "tie_word_embeddings",
    "attention_bias", "rope_scaling", "rope_parameters", "rope_theta", "torch_dtype", "dtype", "hidden_act",
    "attention_dropout", "hidden_dropout", "mlp_bias", "rope_interleaved", "partial_rotary_factor",
    "use_sliding_window", "is_encoder_decoder", "add_cross_attention", "max_position_embeddings",
    "pruned_heads"};
// clang-format on

// Say nothing about what a Llama computes: token ids, generation, bookkeeping. Keys that begin with '_' count
// as such too.
// clang-format off
constexpr std::array<std::string_view, 59> harmless{
    "bad_words_ids", "begin_suppress_tokens", "bos_token_id", "chunk_size_feed_forward",
    "cross_attention_hidden_size", "decoder_start_token_id", "diversity_penalty", "do_sample",
    "early_stopping", "encoder_no_repeat_ngram_size", "eos_token_id", "exponential_decay_length_penalty",
    "finetuning_task", "forced_bos_token_id", "forced_eos_token_id", "id2label", "initializer_range",
    "is_decoder", "is_llama_config", "label2id", "length_penalty", "max_length",
    "max_sequence_length", "min_length", "model_max_length", "name_or_path", "no_repeat_ngram_size",
    "num_beam_groups", "num_beams", "num_return_sequences", "output_attentions", "output_hidden_states",
    "output_scores", "pad_token_id", "prefix", "pretraining_tp", "problem_type", "remove_invalid_values",
    "repetition_penalty", "return_dict", "return_dict_in_generate", "sep_token_id", "suppress_tokens",
    "task_specific_params", "temperature", "tf_legacy_loss", "tie_encoder_decoder", "tokenizer_class",
    "top_k", "top_p", "torchscript", "transformers.js_config", "transformers_version", "typical_p",
    "unk_token_id", "unsloth_fixed", "unsloth_version", "use_bfloat16", "use_cache"};
// clang-format on

/// One config.json; every failure names the file and the key.
class Reading {
 public:
  Reading(std::string_view text, const std::string& file)
      : tree_(parse_json_object(text, file)), file_(file) {}

  HfConfig read() {
    require_llama();
    HfConfig result;
    LlamaArchitecture& llama = result.llama;
    llama.vocab_size = size("vocab_size", 32000);
    llama.hidden_size = size("hidden_size", 4096);
    llama.intermediate_size = size("intermediate_size", 11008);
    llama.num_hidden_layers = size("num_hidden_layers", 32);
    llama.num_attention_heads = size("num_attention_heads", 32);
    llama.num_key_value_heads = size("num_key_value_heads", llama.num_attention_heads);
    llama.head_dim = read_head_dim(llama);
    llama.rms_norm_eps = real(tree_, "", "rms_norm_eps", 1e-6);
    llama.tie_word_embeddings = truth("tie_word_embeddings", false);
    llama.attention_bias = truth("attention_bias", false);
    read_rope(llama);
    require_neutral();
    llama.max_position_embeddings = size("max_position_embeddings", 2048);
    result.dtype = read_dtype();
    check_sizes(llama);
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& key, const std::string& what) const {
    throw CheckpointError(fmt::format("{}: {}: {}", file_, printable(key, 120), printable(what, 400)));
  }
  /// The value of a key; null when it is missing or null.
  [[nodiscard]] static const json* find(const json& object, const char* key) {
    const auto found = object.find(key);
    return found == object.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] std::uint32_t size(const char* key, std::uint32_t missing) const {
    const json* value = find(tree_, key);
    if (!value) return missing;
    constexpr std::uint64_t largest = std::numeric_limits<std::uint32_t>::max();
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > largest)
      fail(key, "must be a whole number of at most 32 bits, is " + value->dump());
    return value->get<std::uint32_t>();
  }
  /// `path` is the object's own key and a dot, or nothing for the whole file.
  [[nodiscard]] double real(const json& object, const std::string& path, const char* key,
                            double missing) const {
    const json* value = find(object, key);
    if (!value) return missing;
    if (!value->is_number() || !std::isfinite(value->get<double>()))
      fail(path + key, "must be a number, is " + value->dump());
    return value->get<double>();
  }
  [[nodiscard]] bool truth(const char* key, bool missing) const {
    const json* value = find(tree_, key);
    if (value && !value->is_boolean()) fail(key, "must be true or false, is " + value->dump());
    return value ? value->get<bool>() : missing;
  }
  [[nodiscard]] std::string word(const json& object, const std::string& path, const char* key,
                                 const char* missing) const {
    const json* value = find(object, key);
    if (value && !value->is_string()) fail(path + key, "must be a text, is " + value->dump());
    return value ? value->get<std::string>() : missing;
  }

  void require_llama() const {
    if (word(tree_, "", "model_type", "llama") != "llama")
      fail("model_type", "weft computes \"llama\", not " + tree_["model_type"].dump());
    const json* architectures = find(tree_, "architectures");
    if (architectures && *architectures != json::array({"LlamaForCausalLM"}))
      fail("architectures", "weft computes [\"LlamaForCausalLM\"], not " + architectures->dump());
    if (!architectures && !find(tree_, "model_type"))
      fail("model_type", "is missing: this is not a configuration of transformers");
  }

  [[nodiscard]] std::uint32_t read_head_dim(const LlamaArchitecture& llama) const {
    if (find(tree_, "head_dim")) return size("head_dim", 0);
    if (llama.num_attention_heads == 0 || llama.hidden_size % llama.num_attention_heads != 0)
      fail("num_attention_heads", fmt::format("{} does not divide hidden_size {}, and there is no head_dim",
                                              llama.num_attention_heads, llama.hidden_size));
    return llama.hidden_size / llama.num_attention_heads;
  }

  struct Rope {
    std::optional<double> theta;
    RopeScaling scaling;
  };

  void read_rope(LlamaArchitecture& llama) const {
    const json* older = find(tree_, "rope_scaling");
    const json* newer = find(tree_, "rope_parameters");
    const Rope first = older ? read_rope_object(*older, "rope_scaling") : Rope{};
    const Rope second = newer ? read_rope_object(*newer, "rope_parameters") : Rope{};
    if (older && newer && first.scaling != second.scaling)
      fail("rope_parameters", "says something else than rope_scaling");
    llama.rope_scaling = older ? first.scaling : second.scaling;
    std::optional<double> theta;
    if (find(tree_, "rope_theta")) theta = real(tree_, "", "rope_theta", 0);
    for (const auto& other : {first.theta, second.theta}) {
      if (theta && other && *theta != *other) fail("rope_theta", "is given twice, with different values");
      if (other) theta = other;
    }
    llama.rope_theta = theta.value_or(10000.0);
  }

  [[nodiscard]] Rope read_rope_object(const json& object, const char* key) const {
    if (!object.is_object()) fail(key, "must be an object, is " + object.dump());
    const std::string path = std::string(key) + ".";
    const std::string type = word(object, path, find(object, "rope_type") ? "rope_type" : "type", "default");
    if (find(object, "type") && word(object, path, "type", "") != type)
      fail(key, "type and rope_type differ");
    Rope rope;
    if (find(object, "rope_theta")) rope.theta = real(object, path, "rope_theta", 0);
    if (type == "linear") rope.scaling.type = RopeType::linear;
    if (type == "llama3") rope.scaling.type = RopeType::llama3;
    if (type != "default" && type != "linear" && type != "llama3")
      fail(key, fmt::format("rope type \"{}\": weft computes default, linear and llama3", type));
    for (const auto& [name, value] : object.items()) read_rope_field(rope.scaling, object, key, name, value);
    require_rope_fields(rope.scaling, object, key);
    return rope;
  }

  void read_rope_field(RopeScaling& scaling, const json& object, const char* key, const std::string& name,
                       const json& value) const {
    const std::string path = std::string(key) + ".";
    if (name == "rope_type" || name == "type" || name == "rope_theta" || value.is_null()) return;
    const bool llama3 = scaling.type == RopeType::llama3;
    if (name == "factor" && scaling.type != RopeType::standard) {
      scaling.factor = real(object, path, "factor", 1);
    } else if (name == "low_freq_factor" && llama3) {
      scaling.low_freq_factor = real(object, path, "low_freq_factor", 1);
    } else if (name == "high_freq_factor" && llama3) {
      scaling.high_freq_factor = real(object, path, "high_freq_factor", 4);
    } else if (name == "original_max_position_embeddings" && llama3) {
      const double positions = real(object, path, "original_max_position_embeddings", 8192);
      if (positions != std::floor(positions) || positions < 0 || positions > 0x1p53)
        fail(path + name, "must be a whole number, is " + value.dump());
      scaling.original_max_position_embeddings = static_cast<std::uint64_t>(positions);
    } else if (!((name == "factor" || name == "partial_rotary_factor") && value == json(1.0))) {
      fail(path + name, "weft does not know what it means for this rope type");
    }
  }

  void require_rope_fields(const RopeScaling& scaling, const json& object, const char* key) const {
    const auto require = [&](const char* name) {
      if (!find(object, name)) fail(fmt::format("{}.{}", key, name), "is missing");
    };
    if (scaling.type != RopeType::standard) require("factor");
    if (scaling.type != RopeType::llama3) return;
    for (const char* name : {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
      require(name);
  }

  /// Everything else must say what weft does anyway.
  void require_neutral() const {
    const auto only = [&](const char* key, const std::vector<json>& allowed) {
      const json* value = find(tree_, key);
      if (value && std::find(allowed.begin(), allowed.end(), *value) == allowed.end())
        fail(key, "weft computes " + allowed.front().dump() + ", not " + value->dump());
    };
    only("hidden_act", {"silu", "swish"});
    only("attention_dropout", {0.0});
    only("hidden_dropout", {0.0});
    only("mlp_bias", {false});
    only("rope_interleaved", {false});
    only("partial_rotary_factor", {1.0});
    only("use_sliding_window", {false});
    only("is_encoder_decoder", {false});
    only("add_cross_attention", {false});
    only("pruned_heads", {json::object()});
    const auto is_in = [](const auto& list, const std::string& key) {
      return std::find(list.begin(), list.end(), key) != list.end();
    };
    for (const auto& [key, value] : tree_.items()) {
      if (value.is_null() || key.starts_with('_') || is_in(understood, key) || is_in(harmless, key)) continue;
      fail(key, "weft cannot tell what this key changes; take it out if it changes nothing");
    }
  }

  [[nodiscard]] std::optional<DType> read_dtype() const {
    const std::string older = word(tree_, "", "torch_dtype", "");
    const std::string newer = word(tree_, "", "dtype", "");
    if (!older.empty() && !newer.empty() && older != newer)
      fail("dtype", "says something else than torch_dtype");
    for (const DType type : {DType::float32, DType::bfloat16, DType::float16})
      if (dtype_name(type) == (newer.empty() ? older : newer)) return type;
    return std::nullopt;
  }

  void check_sizes(const LlamaArchitecture& llama) const {
    LlamaConfig with_a_run(llama);
    with_a_run.sequence_length = 1;
    try {
      check(with_a_run);
    } catch (const Error& error) {
      throw CheckpointError(fmt::format("{}: {}", file_, error.what()));
    }
  }

  json tree_;
  std::string file_;
};

json rope_json(const RopeScaling& scaling) {
  if (scaling.type == RopeType::standard) return {{"rope_type", "default"}};
  if (scaling.type == RopeType::linear) return {{"rope_type", "linear"}, {"factor", scaling.factor}};
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_freq_factor},
          {"high_freq_factor", scaling.high_freq_factor},
          {"original_max_position_embeddings", scaling.original_max_position_embeddings}};
}

}  // namespace

HfConfig parse_hf_config(std::string_view text, const std::string& file_name) {
  return Reading(text, file_name).read();
}

std::string to_hf_config(const LlamaArchitecture& config, DType dtype, std::string_view base) {
  json tree = parse_json_object(base, "config.json");
  json rope = rope_json(config.rope_scaling);
  tree["rope_scaling"] = config.rope_scaling.type == RopeType::standard ? json() : rope;
  rope["rope_theta"] = config.rope_theta;
  tree["rope_parameters"] = std::move(rope);
  tree.update({{"architectures", {"LlamaForCausalLM"}},
               {"model_type", "llama"},
               {"vocab_size", config.vocab_size},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"num_hidden_layers", config.num_hidden_layers},
               {"num_attention_heads", config.num_attention_heads},
               {"num_key_value_heads", config.key_value_heads()},
               {"head_dim", config.head_size()},
               {"hidden_act", "silu"},
               {"max_position_embeddings", config.max_position_embeddings},
               {"rms_norm_eps", config.rms_norm_eps},
               {"rope_theta", config.rope_theta},
               {"attention_bias", config.attention_bias},
               {"attention_dropout", 0.0},
               {"mlp_bias", false},
               {"tie_word_embeddings", config.tie_word_embeddings},
               {"dtype", dtype_name(dtype)},
               {"torch_dtype", dtype_name(dtype)}});
  return tree.dump(2) + "\n";
}

}  // namespace weft
