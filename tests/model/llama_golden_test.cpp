// Three small Llamas against the numbers that PyTorch (Hugging Face transformers, float32) found for them.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "../support/paths.h"
#include "llama_runs.h"
#include "weft/model/weights/load_parameter.h"
#include "weft/model/weights/safetensors.h"

namespace weft::test {
namespace {

nlohmann::json read_json(const std::string& path) { return nlohmann::json::parse(std::ifstream(path)); }

struct Golden {
  std::string folder;
  LlamaConfig config;
  SafetensorsFile weights;
  SafetensorsFile numbers;
  std::vector<nlohmann::json> steps;
  std::uint32_t microbatches;
  std::vector<std::int32_t> tokens;  // [steps, microbatches * batch, sequence + 1]

  explicit Golden(const std::string& name)
      : folder(weft::test::data_dir() + "/llama/" + name),
        weights(folder + "/model.safetensors"),
        numbers(folder + "/golden.safetensors") {
    const auto json = read_json(folder + "/config.json");
    config.vocab_size = json["vocab_size"];
    config.hidden_size = json["hidden_size"];
    config.intermediate_size = json["intermediate_size"];
    config.num_hidden_layers = json["num_hidden_layers"];
    config.num_attention_heads = json["num_attention_heads"];
    config.num_key_value_heads = json["num_key_value_heads"].get<std::uint32_t>();
    config.head_dim = json["head_dim"].get<std::uint32_t>();
    config.rms_norm_eps = json["rms_norm_eps"];
    config.rope_theta = json["rope_parameters"]["rope_theta"];
    config.tie_word_embeddings = json["tie_word_embeddings"];
    const auto golden = read_json(folder + "/golden.json");
    config.sequence_length = golden["sequence_length"];
    config.micro_batch_size = golden["micro_batch_size"];
    microbatches = golden["micro_batches"];
    steps = golden["steps"].get<std::vector<nlohmann::json>>();
    const StoredTensor& stored = numbers.at("tokens");
    tokens.resize(stored.bytes.size() / sizeof(std::int32_t));
    std::memcpy(tokens.data(), stored.bytes.data(), stored.bytes.size());
  }

  [[nodiscard]] AdamWConfig adamw() const {
    AdamWConfig made;
    made.beta2 = 0.95;
    made.learning_rate = [rates = steps](std::uint64_t step) { return rates[step - 1]["lr"].get<double>(); };
    return made;
  }
  [[nodiscard]] TokenBatches batches(std::size_t step) const {
    const std::size_t rows = std::size_t{microbatches} * config.micro_batch_size;
    return TokenBatches(tokens.data() + step * rows * (config.sequence_length + 1), microbatches,
                        config.micro_batch_size, config.sequence_length);
  }
};

/// The largest difference, over the largest expected number.
double relative_error(std::span<const float> got, const StoredTensor& expected) {
  EXPECT_EQ(got.size() * sizeof(float), expected.bytes.size()) << expected.name;
  double largest = 0;
  double difference = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double e = stored_number(expected, i);
    largest = std::max(largest, std::abs(e));
    difference = std::max(difference, std::abs(got[i] - e));
    if (!std::isfinite(got[i])) return INFINITY;
  }
  return difference / largest;
}

struct Result {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, std::vector<std::byte>> values;
  friend bool operator==(const Result&, const Result&) = default;
};

Result train(const Golden& golden, std::uint32_t ranks, int threads, std::size_t steps,
             bool compare = false) {
  LlamaConfig config = golden.config;
  config.threads = threads;
  LlamaRun run(config, even_cut(config.num_hidden_layers, ranks), golden.microbatches, golden.adamw(), 1.0);
  run.set_values([&](const Parameter& parameter) {
    load_parameter(parameter,
                   golden.weights.at(parameter.tied_to.empty() ? parameter.name : parameter.tied_to),
                   "model");
  });
  std::vector<float> logits;
  run.last_stage().observe_logits([&](std::span<const float> seen) {
    if (logits.empty()) logits.assign(seen.begin(), seen.end());
  });
  Result result;
  for (std::size_t step = 0; step < steps; ++step) {
    const TokenBatches batches = golden.batches(step);
    const StepReport report = run.pipeline().step(batches.inputs, batches.targets);
    result.losses.push_back(report.loss);
    result.norms.push_back(report.gradient_norm);
    if (step > 0 || !compare) continue;
    EXPECT_LT(relative_error(logits, golden.numbers.at("logits.step1.mb0")), 2e-5);
    for (const auto& [name, gradient] : run.gradients())
      if (const StoredTensor* expected = golden.numbers.find("grad.step1." + name))
        EXPECT_LT(relative_error(gradient, *expected), 2e-5) << name;
      else
        EXPECT_TRUE(config.tie_word_embeddings && name == "lm_head.weight") << name;
  }
  result.values = run.values();
  return result;
}

class GoldenLlama : public testing::TestWithParam<const char*> {};

TEST_P(GoldenLlama, has_the_logits_gradients_losses_and_norms_of_pytorch) {
  const Golden golden(GetParam());
  const Result result = train(golden, 1, 1, golden.steps.size(), true);
  for (std::size_t step = 0; step < golden.steps.size(); ++step) {
    EXPECT_NEAR(result.losses[step], golden.steps[step]["loss"].get<double>(), 1e-5) << "step " << step + 1;
    const double norm = golden.steps[step]["grad_norm"];
    EXPECT_NEAR(result.norms[step] / norm, 1.0, 1e-4) << "step " << step + 1;
  }
}

TEST_P(GoldenLlama, has_the_weights_of_pytorch_after_ten_steps) {
  const Golden golden(GetParam());
  const Result result = train(golden, 1, 1, golden.steps.size());
  for (const auto& [name, bytes] : result.values) {
    if (golden.config.tie_word_embeddings && name == "lm_head.weight") continue;
    const StoredTensor& start = golden.weights.at(name);
    const StoredTensor& end = golden.numbers.at("param.step10." + name);
    const auto* value = reinterpret_cast<const float*>(bytes.data());
    const std::size_t n = bytes.size() / sizeof(float);
    double change = 0;
    for (std::size_t i = 0; i < n; ++i)
      change = std::max(change, std::abs(double{stored_number(end, i)} - stored_number(start, i)));
    std::size_t off = 0;
    double worst = 0;
    for (std::size_t i = 0; i < n; ++i) {
      const double error = std::abs(double{value[i]} - stored_number(end, i)) / change;
      off += error > 1e-4 ? 1 : 0;
      worst = std::max(worst, error);
    }
    EXPECT_LE(static_cast<double>(off), 1e-3 * static_cast<double>(n)) << name;
    EXPECT_LT(worst, 1e-2) << name;
  }
}

TEST_P(GoldenLlama, trains_to_the_same_bits_however_it_is_cut_and_threaded) {
  const Golden golden(GetParam());
  constexpr std::size_t steps = 3;  // the first has a learning rate of 0
  const Result one = train(golden, 1, 1, steps);
  for (std::uint32_t ranks = 2; ranks <= golden.config.num_hidden_layers; ++ranks)
    EXPECT_EQ(train(golden, ranks, 1, steps), one) << ranks << " ranks";
  for (int threads = 2; threads <= 3; ++threads)
    EXPECT_EQ(train(golden, 1, threads, steps), one) << threads << " threads";
}

INSTANTIATE_TEST_SUITE_P(models, GoldenLlama, testing::Values("mha_tied", "gqa_untied", "deep_gqa"));

}  // namespace
}  // namespace weft::test
