// What is said of a tied weight goes by the name that it is stored under, for both of its copies.
#include <gmock/gmock.h>

#include "trainer_fixture.h"

namespace weft::test {
namespace {

class TiedDecay : public TrainerTest {
 protected:
  static NanotronConfig config(const std::string& patterns, std::vector<std::string> changes = {}) {
    const std::string text =
        "general: {run: tied_decay, seed: 7}\n"
        "parallelism: {pp: 2}\n"
        "model:\n"
        "  dtype: float32\n"
        "  init_method: {std: 0.1}\n"
        "  model_config: {vocab_size: 64, hidden_size: 16, intermediate_size: 24, num_hidden_layers: 2, "
        "num_attention_heads: 2, tie_word_embeddings: true}\n"
        "tokens: {sequence_length: 8, micro_batch_size: 2, batch_accumulation_per_replica: 2, train_steps: "
        "4}\n"
        "data_stages: [{name: random, start_training_step: 1, data: {seed: 3, dataset: null}}]\n"
        "optimizer:\n"
        "  optimizer_factory: {name: adamW, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1.0e-8}\n"
        "  learning_rate_scheduler: {learning_rate: 0.01}\n"
        "  weight_decay: 0.5\n"
        "  weight_decay_exclude_named_params: " +
        patterns +
        "\n  clip_grad: 1.0\n"
        "logging: {iteration_step_info_interval: 1000, log_level: warning}\n"
        "checkpoints: {checkpoint_interval: 2}\n";
    changes.push_back("pipeline_parallel.transport=inproc");
    return with(text, changes);
  }

  static std::vector<double> losses(const Run& run) {
    std::vector<double> all;
    for (const json& line : run.metrics) all.push_back(line["loss"].get<double>());
    return all;
  }
};

TEST_F(TiedDecay, FollowsTheStoredName) {
  const Run excluded = train(config("['.*embed_tokens.*']"));
  const std::vector<double> right = {4.215690, 4.279686, 4.362126, 4.255840};
  EXPECT_THAT(losses(excluded), testing::Pointwise(testing::DoubleNear(2e-6), right));
  EXPECT_EQ(train(config("['.*embed_tokens.*']", {"parallelism.pp=1"})).bits(), excluded.bits());
  EXPECT_EQ(train(config("['.*token_embedding.*']")).bits(), excluded.bits()) << "Nanotron's name";
  const Run all_decayed = train(config("[]"));
  EXPECT_NE(all_decayed.bits(), excluded.bits());
  EXPECT_EQ(train(config("['lm_head.*']")).bits(), all_decayed.bits()) << "that name is not stored";
}

TEST_F(TiedDecay, IsTheSameAfterAResume) {
  const std::string run = (folder_ / "run").string();
  TrainerOptions options;
  options.run_dir = run;
  const Run straight = train(config("['.*embed_tokens.*']"), options);
  fs::remove_all(fs::path(run) / "checkpoints" / "step-00000004");
  options.resume = "latest";
  EXPECT_EQ(train(config("['.*embed_tokens.*']"), options).result.weights_sha256,
            straight.result.weights_sha256);
}

}  // namespace
}  // namespace weft::test
