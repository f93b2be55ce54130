#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/model/weights/hf_config.h"

namespace weft {
namespace {

using nlohmann::json;
using testing::HasSubstr;

/// As recent transformers write it.
json newer() {
  return json::parse(R"({
    "architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1,
    "dtype": "float32", "eos_token_id": [2, 3], "head_dim": 8, "hidden_act": "silu", "hidden_size": 32,
    "initializer_range": 0.02, "intermediate_size": 88, "max_position_embeddings": 64, "mlp_bias": false,
    "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 12, "num_key_value_heads": 2,
    "pad_token_id": null, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
    "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}, "tie_word_embeddings": true,
    "transformers_version": "5.24.0", "use_cache": true, "vocab_size": 128})");
}

/// The same model as older transformers write it.
json older() {
  json tree = newer();
  for (const char* key : {"rope_parameters", "dtype", "head_dim"}) tree.erase(key);
  tree["rope_theta"] = 500000.0;
  tree["rope_scaling"] = nullptr;
  tree["torch_dtype"] = "float32";
  return tree;
}

HfConfig parse(const json& tree) { return parse_hf_config(tree.dump(), "config.json"); }

std::string problem_of(const std::string& text) {
  try {
    (void)parse_hf_config(text, "config.json");
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), testing::StartsWith("config.json: "));
    return error.what();
  }
  return "accepted";
}

std::string problem_with(const char* key, const json& value) {
  json tree = newer();
  tree[key] = value;
  return problem_of(tree.dump());
}

/// The architecture as weft's own text, for comparisons.
std::string text_of(const HfConfig& config) {
  return to_hf_config(config.llama, config.dtype.value_or(DType::float32));
}

TEST(HfConfig, ReadsBothSpellingsAlike) {
  const auto config = parse(newer());
  EXPECT_EQ(text_of(config), text_of(parse(older())));
  EXPECT_EQ(config.llama.vocab_size, 128u);
  EXPECT_EQ(config.llama.hidden_size, 32u);
  EXPECT_EQ(config.llama.intermediate_size, 88u);
  EXPECT_EQ(config.llama.num_hidden_layers, 12u);
  EXPECT_EQ(config.llama.num_attention_heads, 4u);
  EXPECT_EQ(config.llama.num_key_value_heads, 2u);
  EXPECT_EQ(config.llama.head_dim, 8u);
  EXPECT_EQ(config.llama.rms_norm_eps, 1e-5);
  EXPECT_EQ(config.llama.rope_theta, 500000.0);
  EXPECT_EQ(config.llama.rope_scaling.type, RopeType::standard);
  EXPECT_TRUE(config.llama.tie_word_embeddings);
  EXPECT_FALSE(config.llama.attention_bias);
  EXPECT_EQ(config.llama.max_position_embeddings, 64u);
  EXPECT_EQ(config.dtype, DType::float32);
}

TEST(HfConfig, FillsInWhatTransformersWould) {
  const auto config = parse({{"model_type", "llama"}});
  EXPECT_EQ(config.llama.vocab_size, 32000u);
  EXPECT_EQ(config.llama.num_key_value_heads, 32u);
  EXPECT_EQ(config.llama.head_dim, 128u);
  EXPECT_EQ(config.llama.rope_theta, 10000.0);
  EXPECT_FALSE(config.llama.tie_word_embeddings);
  EXPECT_EQ(config.dtype, std::nullopt);
  const auto multi_query = parse({{"architectures", {"LlamaForCausalLM"}},
                                  {"num_key_value_heads", 1},
                                  {"num_attention_heads", 8},
                                  {"head_dim", 80},
                                  {"dtype", "float16"}});
  EXPECT_EQ(multi_query.llama.num_key_value_heads, 1u);
  EXPECT_EQ(multi_query.llama.head_dim, 80u);
  EXPECT_EQ(multi_query.dtype, DType::float16);
}

TEST(HfConfig, ReadsTheRopeTypesThatWeftComputes) {
  json tree = older();
  tree["rope_scaling"] = {{"type", "linear"}, {"factor", 4}};
  EXPECT_EQ(parse(tree).llama.rope_scaling.type, RopeType::linear);
  EXPECT_EQ(parse(tree).llama.rope_scaling.factor, 4.0);
  tree["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 32.0},
                          {"low_freq_factor", 1.5},
                          {"high_freq_factor", 4.5},
                          {"original_max_position_embeddings", 8000}};
  const auto config = parse(tree);
  EXPECT_EQ(config.llama.rope_scaling.type, RopeType::llama3);
  EXPECT_EQ(config.llama.rope_scaling.factor, 32.0);
  EXPECT_EQ(config.llama.rope_scaling.low_freq_factor, 1.5);
  EXPECT_EQ(config.llama.rope_scaling.high_freq_factor, 4.5);
  EXPECT_EQ(config.llama.rope_scaling.original_max_position_embeddings, 8000u);
  tree["rope_parameters"] = tree["rope_scaling"];
  tree["rope_parameters"]["rope_theta"] = 500000.0;
  EXPECT_EQ(text_of(parse(tree)), text_of(config));
  tree.erase("rope_scaling");
  tree.erase("rope_theta");
  EXPECT_EQ(text_of(parse(tree)), text_of(config));
}

TEST(HfConfig, WritesWhatItReads) {
  for (json tree : {newer(), older()}) {
    for (const RopeType type : {RopeType::standard, RopeType::linear, RopeType::llama3}) {
      auto config = parse(tree);
      config.llama.rope_scaling.type = type;
      if (type != RopeType::standard) config.llama.rope_scaling.factor = 2.5;
      config.llama.attention_bias = type == RopeType::linear;
      config.dtype = DType::bfloat16;
      const auto again = parse_hf_config(text_of(config), "f");
      EXPECT_EQ(again.dtype, DType::bfloat16);
      EXPECT_EQ(again.llama, config.llama);
      EXPECT_EQ(text_of(again), text_of(config));
    }
  }
}

TEST(HfConfig, KeepsTheOtherKeysOfABase) {
  const auto tree =
      json::parse(to_hf_config(parse(newer()).llama, DType::float32,
                               R"({"eos_token_id": 7, "vocab_size": 1, "rope_scaling": {"type": "yarn"}})"));
  EXPECT_EQ(tree["eos_token_id"], 7);
  EXPECT_EQ(tree["vocab_size"], 128);
  EXPECT_EQ(tree["max_position_embeddings"], 64);
  EXPECT_TRUE(tree["rope_scaling"].is_null());
  EXPECT_THROW((void)to_hf_config({}, DType::float32, "[]"), CheckpointError);
}

TEST(HfConfig, RefusesByNameWhatWeftDoesNotCompute) {
  const std::pair<const char*, json> cases[] = {{"hidden_act", "gelu"},
                                                {"attention_dropout", 0.1},
                                                {"mlp_bias", true},
                                                {"sliding_window", 4096},
                                                {"use_sliding_window", true},
                                                {"model_type", "mistral"},
                                                {"architectures", {"LlamaForSequenceClassification"}},
                                                {"quantization_config", {{"bits", 4}}},
                                                {"partial_rotary_factor", 0.5},
                                                {"rope_interleaved", true},
                                                {"num_local_experts", 8},
                                                {"auto_map", {{"AutoModel", "x.py"}}},
                                                {"qk_norm", true},
                                                {"final_logit_softcapping", 30.0},
                                                {"layer_types", {"sliding_attention"}},
                                                {"pruned_heads", {{"1", {0}}}}};
  for (const auto& [key, value] : cases)
    EXPECT_THAT(problem_with(key, value), HasSubstr(std::string(": ") + key + ": "));
  for (const auto& [key, value] : cases) EXPECT_EQ(problem_with(key, nullptr), "accepted") << key;
  EXPECT_EQ(problem_with("_anything", 1), "accepted");
  EXPECT_EQ(problem_with("hidden_act", "swish"), "accepted");
  EXPECT_EQ(problem_with("sliding_window", nullptr), "accepted");
}

TEST(HfConfig, RefusesRopesThatWeftDoesNotCompute) {
  const auto rope = [](const json& value) { return problem_with("rope_parameters", value); };
  for (const char* type : {"dynamic", "yarn", "longrope", "su"})
    EXPECT_THAT(rope({{"rope_type", type}, {"factor", 2.0}}), HasSubstr(type));
  EXPECT_THAT(rope({{"full_attention", {{"rope_type", "default"}}}}),
              HasSubstr("rope_parameters.full_attention"));
  EXPECT_THAT(rope({{"rope_type", "default"}, {"factor", 2.0}}), HasSubstr("rope_parameters.factor"));
  EXPECT_THAT(rope({{"rope_type", "linear"}}), HasSubstr("rope_parameters.factor: is missing"));
  EXPECT_THAT(rope({{"rope_type", "linear"}, {"factor", "2"}}), HasSubstr("factor: must be a number"));
  EXPECT_THAT(rope({{"rope_type", "linear"}, {"factor", 0}}), HasSubstr("rope_scaling.factor"));
  EXPECT_THAT(rope({{"rope_type", "linear"}, {"factor", 2}, {"attention_factor", 1.5}}),
              HasSubstr("rope_parameters.attention_factor"));
  EXPECT_THAT(rope({{"rope_type", "llama3"}, {"factor", 8}, {"low_freq_factor", 1}, {"high_freq_factor", 4}}),
              HasSubstr("original_max_position_embeddings: is missing"));
  for (const double positions : {8192.5, 1e300, -1.0, 0.0}) {
    EXPECT_THAT(rope({{"rope_type", "llama3"},
                      {"factor", 8},
                      {"low_freq_factor", 1},
                      {"high_freq_factor", 4},
                      {"original_max_position_embeddings", positions}}),
                HasSubstr("original_max_position_embeddings"));
  }
  EXPECT_THAT(rope({{"rope_type", "linear"}, {"type", "llama3"}, {"factor", 2}}), HasSubstr("differ"));
  EXPECT_THAT(rope(5), HasSubstr("must be an object"));
  EXPECT_THAT(problem_with("rope_theta", 10000.0), HasSubstr("rope_theta: is given twice"));
  EXPECT_THAT(problem_with("rope_scaling", {{"type", "linear"}, {"factor", 2}}),
              HasSubstr("something else than rope_scaling"));
  EXPECT_THAT(problem_with("torch_dtype", "bfloat16"), HasSubstr("dtype"));
  EXPECT_THAT(problem_with("rope_parameters", {{"rope_type", "default"}, {"rope_theta", -1.0}}),
              HasSubstr("rope_theta"));
}

TEST(HfConfig, RefusesValuesThatAreNone) {
  EXPECT_THAT(problem_with("vocab_size", 0), HasSubstr("vocab_size"));
  EXPECT_THAT(problem_with("vocab_size", -1), HasSubstr("vocab_size"));
  EXPECT_THAT(problem_with("vocab_size", 1.5), HasSubstr("vocab_size"));
  EXPECT_THAT(problem_with("hidden_size", 4294967296u), HasSubstr("hidden_size"));
  EXPECT_THAT(problem_with("num_key_value_heads", 3), HasSubstr("num_key_value_heads"));
  EXPECT_THAT(problem_with("head_dim", 7), HasSubstr("head_dim"));
  EXPECT_THAT(problem_with("tie_word_embeddings", 1), HasSubstr("tie_word_embeddings"));
  EXPECT_THAT(problem_with("rms_norm_eps", "small"), HasSubstr("rms_norm_eps"));
  json odd = older();
  odd["num_attention_heads"] = 6;
  odd["num_key_value_heads"] = 6;
  EXPECT_THAT(problem_of(odd.dump()), HasSubstr("num_attention_heads"));
  EXPECT_THAT(problem_of("{}"), HasSubstr("model_type"));
  EXPECT_THAT(problem_of("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(problem_of("{"), HasSubstr("not valid JSON"));
  EXPECT_THAT(problem_of(R"({"model_type":"llama","vocab_size":1,"vocab_size":2})"), HasSubstr("twice"));
  EXPECT_THAT(problem_of(std::string(100'000, '[')), HasSubstr("too deeply"));
}

TEST(HfConfig, NamesNestedKeysWithTheirPath) {
  EXPECT_THAT(problem_with("rope_scaling", {{"type", "linear"}, {"factor", "x"}}),
              HasSubstr("rope_scaling.factor: must be a number, is \"x\""));
  EXPECT_THAT(problem_with("rope_parameters", {{"rope_type", 3}}),
              HasSubstr("rope_parameters.rope_type: must"));
  EXPECT_THAT(problem_with("rope_parameters", {{"rope_type", "default"}, {"rope_theta", "x"}}),
              HasSubstr("rope_parameters.rope_theta: must"));
}

TEST(HfConfig, ShowsNothingThatATerminalObeys) {
  const std::string evil = "\x1b[31m\x7f\u009b2J";
  json nested = newer();
  nested["rope_scaling"] = {{"rope_type", "llama3"}, {evil, 1}};
  for (const std::string& problem :
       {problem_with(evil.c_str(), 1), problem_with("hidden_act", evil), problem_with("vocab_size", evil),
        problem_with("rope_scaling", {{"type", evil}}), problem_of(nested.dump()), problem_of("{\x7f\u009b}"),
        problem_of("{\"" + std::string("a\u009b\\u001b") + "\": 1, \"a\u009b\\u001b\": 2}")}) {
    EXPECT_NE(problem, "accepted");
    EXPECT_TRUE(std::all_of(problem.begin(), problem.end(), [](unsigned char c) {
      return c >= 0x20 && c < 0x7f;
    })) << problem;
  }
  EXPECT_LT(problem_with("vocab_size", std::string(100'000, 'x')).size(), 1000u);
}

}  // namespace
}  // namespace weft
