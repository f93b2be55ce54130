#pragma once
// A small valid configuration for the tests of configuration and data.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "weft/training/config/load.h"

namespace weft::testing {

inline const std::string valid_text = R"(general:
  project: tests
  run: small
parallelism: {dp: 1, pp: 2, tp: 1}
model:
  dtype: float32
  init_method: {std: 0.02}
  model_config:
    is_llama_config: true
    vocab_size: 256
    hidden_size: 64
    intermediate_size: 96
    num_hidden_layers: 4
    num_attention_heads: 4
    num_key_value_heads: 2
tokens:
  sequence_length: 16
  train_steps: 10
  micro_batch_size: 2
  batch_accumulation_per_replica: 4
data_stages:
- name: random
  start_training_step: 1
  data:
    dataset: null
optimizer:
  optimizer_factory: {name: adamW, adam_eps: 1e-8, adam_beta1: 0.9, adam_beta2: 0.95}
  learning_rate_scheduler: {learning_rate: 3e-4}
  clip_grad: 1
)";

/// Loads valid_text with `--set` arguments.
inline LoadedConfig load_with(const std::vector<std::string>& arguments,
                              const std::string& text = valid_text) {
  std::vector<ConfigOverride> overrides;
  for (const std::string& argument : arguments) overrides.push_back(set_override(argument));
  return parse_config(text, "c.yaml", overrides);
}

/// What loading fails with; empty when it does not fail.
inline std::string error_of(const std::vector<std::string>& arguments, const std::string& text = valid_text) {
  try {
    (void)load_with(arguments, text);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return {};
}

/// valid_text with one part replaced.
inline std::string with(const std::string& from, const std::string& to) {
  std::string text = valid_text;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

}  // namespace weft::testing
