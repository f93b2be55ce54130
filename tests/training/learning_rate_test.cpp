#include "weft/training/learning_rate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <numbers>

#include "weft/training/model_flops.h"

namespace weft {
namespace {

/// The scheduler of Nanotron's config_tiny_llama.yaml, and its table.
LearningRateConfig tiny_scheduler() {
  LearningRateConfig c;
  c.learning_rate = 3e-4;
  c.lr_warmup_steps = 2;
  c.lr_decay_style = DecayStyle::cosine;
  c.lr_decay_steps = 13;
  c.min_decay_lr = 1e-5;
  return c;
}

NanotronConfig with(const LearningRateConfig& scheduler, std::int64_t train_steps) {
  NanotronConfig config;
  config.optimizer.learning_rate_scheduler = scheduler;
  config.tokens.train_steps = train_steps;
  return config;
}

TEST(LearningRate, FollowsNanotronsTable) {
  const NanotronConfig config = with(tiny_scheduler(), 2000);
  const double table[] = {0,          1.5e-4,     3e-4,       2.95787e-4, 2.83391e-4, 2.63534e-4,
                          2.37369e-4, 2.06418e-4, 1.72478e-4, 1.37522e-4, 1.03582e-4, 7.26306e-5,
                          4.64659e-5, 2.66089e-5, 1.42134e-5, 1e-5};
  for (std::uint64_t step = 1; step <= 16; ++step) {
    EXPECT_NEAR(learning_rate(config, step), table[step - 1], 5e-10) << "step " << step;
  }
  EXPECT_EQ(learning_rate(config, 17), 1e-5);
  EXPECT_EQ(learning_rate(config, 2'000'000'000), 1e-5);
}

TEST(LearningRate, DecaysInEveryStyleFromItsStartToItsEnd) {
  const auto remaining = [](DecayStyle style, double progress) {
    switch (style) {
      case DecayStyle::linear:
        return 1 - progress;
      case DecayStyle::cosine:
        return 0.5 * (1 + std::cos(std::numbers::pi * progress));
      case DecayStyle::one_minus_sqrt:
        return 1 - std::sqrt(progress);
    }
    return 0.0;
  };
  for (const DecayStyle style : {DecayStyle::linear, DecayStyle::cosine, DecayStyle::one_minus_sqrt}) {
    LearningRateConfig c;
    c.learning_rate = 0.5;
    c.min_decay_lr = 0.1;
    c.lr_warmup_steps = 4;
    c.lr_decay_starting_step = 10;
    c.lr_decay_steps = 20;
    c.lr_decay_style = style;
    const NanotronConfig config = with(c, 100);
    for (int s = 0; s < 50; ++s) {
      double expected = 0.5;
      if (s <= 4) expected = 0.5 * s / 4;
      if (s >= 10) expected = 0.1 + 0.4 * remaining(style, (s - 10) / 20.0);
      if (s >= 30) expected = 0.1;
      EXPECT_NEAR(learning_rate(config, static_cast<std::uint64_t>(s) + 1), expected, 1e-15) << "s = " << s;
    }
  }
}

TEST(LearningRate, WithoutWarmupStartsAtItsPeak) {
  LearningRateConfig c = tiny_scheduler();
  c.lr_warmup_steps = 0;
  EXPECT_EQ(learning_rate(with(c, 100), 1), 3e-4);
  c.lr_warmup_steps = 5;
  c.lr_warmup_style = WarmupStyle::constant;
  for (std::uint64_t step = 1; step <= 6; ++step) EXPECT_EQ(learning_rate(with(c, 100), step), 3e-4);
}

TEST(LearningRate, ByDefaultDecaysOverAllStepsAfterTheWarmupToItself) {
  LearningRateConfig c;
  c.learning_rate = 1;
  c.lr_warmup_steps = 10;
  for (std::uint64_t step = 11; step <= 200; ++step) EXPECT_EQ(learning_rate(with(c, 100), step), 1);
  c.min_decay_lr = 0;
  EXPECT_EQ(learning_rate(with(c, 100), 11), 1);
  EXPECT_NEAR(learning_rate(with(c, 100), 56), 0.5, 1e-15);
  EXPECT_EQ(learning_rate(with(c, 100), 101), 0);
}

TEST(LearningRate, MayEndInsideTheWarmup) {
  LearningRateConfig c = tiny_scheduler();
  c.lr_warmup_steps = 100;
  c.lr_decay_steps.reset();
  EXPECT_NEAR(learning_rate(with(c, 10), 10), 3e-4 * 9 / 100, 1e-18);
  EXPECT_EQ(learning_rate(with(c, 10), 101), 3e-4);  // never asked for
}

TEST(ModelFlops, FollowNanotronsFormula) {
  NanotronConfig config;
  LlamaArchitecture& model = config.model.model_config;
  model.num_hidden_layers = 8;
  model.hidden_size = 512;
  model.intermediate_size = 1408;
  model.num_attention_heads = 8;
  model.num_key_value_heads = 4;
  model.vocab_size = 8192;
  config.tokens.sequence_length = 256;
  config.tokens.micro_batch_size = 2;
  config.tokens.batch_accumulation_per_replica = 8;
  const double L = 8, B = 16, S = 256, h = 512, nh = 8, nkv = 4, dh = 64, f = 1408, V = 8192;
  EXPECT_EQ(
      step_flops(config),
      3 * (L * B * S * (2 * h * nh * dh + 4 * h * nkv * dh + 4 * S * nh * dh + 2 * nh * dh * h + 6 * h * f) +
           2 * B * S * h * V));
}

}  // namespace
}  // namespace weft
