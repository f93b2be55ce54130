#include "weft/training/given_weights.h"

#include "weft/base/error.h"
#include "weft/model/weights/hf_folder.h"

namespace weft {
namespace {

ModelConfig model_config_of(const HfConfig& given) {
  const LlamaConfig& llama = given.llama;
  ModelConfig model;
  model.vocab_size = llama.vocab_size;
  model.hidden_size = llama.hidden_size;
  model.intermediate_size = llama.intermediate_size;
  model.num_hidden_layers = llama.num_hidden_layers;
  model.num_attention_heads = llama.num_attention_heads;
  model.num_key_value_heads = llama.num_key_value_heads;
  model.head_dim = llama.head_dim;
  model.max_position_embeddings = given.max_position_embeddings;
  model.rms_norm_eps = llama.rms_norm_eps;
  model.rope_theta = llama.rope_theta;
  switch (llama.rope_scaling.type) {
    case RopeType::standard:
      model.rope_scaling.rope_type = RopeScalingType::none;
      break;
    case RopeType::linear:
      model.rope_scaling.rope_type = RopeScalingType::linear;
      break;
    case RopeType::llama3:
      model.rope_scaling.rope_type = RopeScalingType::llama3;
      break;
  }
  if (llama.rope_scaling.type != RopeType::standard) {
    model.rope_scaling.factor = llama.rope_scaling.factor;
    model.rope_scaling.low_freq_factor = llama.rope_scaling.low_freq_factor;
    model.rope_scaling.high_freq_factor = llama.rope_scaling.high_freq_factor;
    model.rope_scaling.original_max_position_embeddings =
        static_cast<std::int64_t>(llama.rope_scaling.original_max_position_embeddings);
  }
  model.attention_bias = llama.attention_bias;
  model.tie_word_embeddings = llama.tie_word_embeddings;
  return model;
}

// Whether two descriptions are the same model: the spellings of defaults do not matter.
bool same_model(ModelConfig a, ModelConfig b) {
  for (ModelConfig* model : {&a, &b}) {
    model->num_key_value_heads = model->key_value_heads();
    model->head_dim = model->head_size();
    model->max_position_embeddings = 0;
  }
  return a == b;
}

}  // namespace

void adopt_given_architecture(NanotronConfig& config, const ConfigSources& sources,
                              std::vector<std::string>& notices, const ResumeRequest& request) {
  const auto& path = config.model.init_method.path;
  if (!path) return;
  const auto point = expected_resume_point(config, request, sources);
  const bool goes_on = point && !point->checkpoint.manifest.position.model.empty();
  const std::string from =
      goes_on ? point->checkpoint.folder.string() + "/manifest.json" : *path + "/config.json";
  try {
    const ModelConfig given =
        model_config_of(goes_on ? parse_hf_config(point->checkpoint.manifest.position.model, from)
                                : HfFolder(*path).config());
    ModelConfig& model = config.model.model_config;
    if (model != ModelConfig{} && !same_model(model, given))
      notices.push_back("model.model_config differs from " + from + " and is ignored");
    model = given;
    config.model.make_vocab_size_divisible_by = 1;
  } catch (const CheckpointError& e) {
    throw config_error(sources.find("model.init_method.path"), "model.init_method.path", e.what());
  }
}

void load_given_weights(const NanotronConfig& config, std::span<Parameter* const> parameters) {
  if (config.model.init_method.path) HfFolder(*config.model.init_method.path).load(parameters);
}

std::string given_config_text(const NanotronConfig& config) {
  const auto& path = config.model.init_method.path;
  return path ? HfFolder(*path).config_text() : "{}";
}

}  // namespace weft
