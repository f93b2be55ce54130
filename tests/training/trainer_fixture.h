#pragma once
// Whole trainings in this process: a Llama that trains in milliseconds, and what its run left behind.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "weft/tests/support/scratch_folder.h"
#include "weft/training/config/load.h"
#include "weft/training/run_folder.h"
#include "weft/training/trainer.h"

namespace weft::test {

namespace fs = std::filesystem;
using nlohmann::json;

inline json read_json(const fs::path& path) { return json::parse(std::ifstream(path)); }

inline std::vector<json> read_lines(const fs::path& path) {
  std::vector<json> lines;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) lines.push_back(json::parse(line));
  return lines;
}

class TrainerTest : public testing::Test {
 protected:
  // A Llama that trains in milliseconds, with changes of the form `--set`.
  NanotronConfig tiny(const std::vector<std::string>& changes = {}) {
    const std::string text =
        "general: {run: tiny, seed: 7}\n"
        "parallelism: {dp: 1, pp: 1, tp: 1}\n"
        "model:\n"
        "  dtype: float32\n"
        "  init_method: {std: 0.1}\n"
        "  model_config: {is_llama_config: true, vocab_size: 32, hidden_size: 16, intermediate_size: 24, "
        "num_hidden_layers: 8,"
        " num_attention_heads: 2, num_key_value_heads: 1, tie_word_embeddings: true}\n"
        "tokens: {sequence_length: 8, train_steps: 4, micro_batch_size: 2, batch_accumulation_per_replica: "
        "8}\n"
        "data_stages: [{name: random, start_training_step: 1, data: {seed: 3, dataset: null}}]\n"
        "optimizer:\n"
        "  optimizer_factory: {name: adamW, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1e-8}\n"
        "  learning_rate_scheduler: {learning_rate: 0.01, lr_warmup_steps: 1, lr_warmup_style: linear, "
        "lr_decay_style: cosine,"
        " lr_decay_steps: 20, min_decay_lr: 0.001}\n"
        "  weight_decay: 0.01\n"
        "  clip_grad: 1.0\n"
        "logging: {iteration_step_info_interval: 1000, log_level: warning}\n"
        "checkpoints: {save_final_state: false}\n";
    return with(text, changes);
  }
  static NanotronConfig with(const std::string& text, const std::vector<std::string>& changes) {
    std::vector<ConfigOverride> overrides;
    for (const std::string& change : changes) overrides.push_back(set_override(change));
    return parse_config(text, "test.yaml", overrides).config;
  }

  struct Run {
    RunResult result;
    std::vector<json> metrics;
    // What must be the same bits.
    [[nodiscard]] std::string bits() const {
      std::string all;
      for (const json& line : metrics) all += line["loss"].dump() + " " + line["grad_norm"].dump() + "\n";
      return all + result.weights_sha256;
    }
  };
  Run train(const NanotronConfig& config, TrainerOptions options = {}) {
    if (!options.run_dir) options.run_dir = (folder_ / fmt::format("run{}", ++runs_)).string();
    const Llama model(config);
    const auto optimizer = configured_optimizer(config);
    Run run;
    testing::internal::CaptureStdout();
    try {
      run.result = Trainer(config, model, *optimizer, options).fit();
    } catch (...) {
      testing::internal::GetCapturedStdout();
      throw;
    }
    testing::internal::GetCapturedStdout();
    run.metrics = read_lines(metrics_file(run.result.folder));
    return run;
  }

  const ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
  int runs_ = 0;
};

}  // namespace weft::test
