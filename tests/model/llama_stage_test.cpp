// Properties of Llama stages: bits that do not depend on the cut, the threads, recomputing or the largest
// shape.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "llama_runs.h"
#include "weft/actors/gradient_range.h"
#include "weft/base/random.h"

namespace weft::test {
namespace {

LlamaConfig small_config() {
  LlamaConfig config;
  config.vocab_size = 75;
  config.hidden_size = 36;
  config.intermediate_size = 52;
  config.num_hidden_layers = 4;
  config.num_attention_heads = 6;
  config.num_key_value_heads = 2;
  config.head_dim = 10;  // not hidden / heads
  config.init_std = 0.1;
  config.sequence_length = 39;
  config.micro_batch_size = 2;
  return config;
}

std::vector<std::int32_t> random_tokens(const LlamaConfig& config, std::uint32_t rows,
                                        std::uint32_t sequence) {
  std::vector<std::int32_t> tokens(rows * (sequence + 1));
  const CounterRandom random(1, RandomPurpose::test, 9);
  for (std::size_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(random.below(config.vocab_size, i));
  return tokens;
}

AdamWConfig adamw() {
  AdamWConfig config;
  config.learning_rate = [](std::uint64_t) { return 1e-2; };
  return config;
}

struct Result {
  std::vector<double> losses;
  std::vector<double> norms;
  std::map<std::string, std::vector<std::byte>> values;
  friend bool operator==(const Result&, const Result&) = default;
};

Result train(const LlamaConfig& config, std::uint32_t ranks, const std::string& schedule = "1f1b",
             std::uint32_t batch = 2, std::uint32_t sequence = 39) {
  constexpr std::uint32_t microbatches = 3;
  LlamaRun run(config, even_cut(config.num_hidden_layers, ranks), microbatches, adamw(), 1.0, schedule);
  const auto tokens = random_tokens(config, microbatches * batch, sequence);
  const TokenBatches batches(tokens.data(), microbatches, batch, sequence);
  Result result;
  for (int step = 0; step < 3; ++step) {
    const StepReport report = run.pipeline().step(batches.inputs, batches.targets);
    result.losses.insert(result.losses.end(), report.losses.begin(), report.losses.end());
    result.norms.push_back(report.gradient_norm);
  }
  result.values = run.values();
  return result;
}

/// float32 and bfloat16; untied, tied, with biases.
struct Kind {
  const char* name;
  DType dtype;
  bool tied;
  bool biased;

  friend void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }
};

class LlamaStages : public testing::TestWithParam<Kind> {
 protected:
  static LlamaConfig config() {
    LlamaConfig made = small_config();
    made.dtype = GetParam().dtype;
    made.tie_word_embeddings = GetParam().tied;
    made.attention_bias = GetParam().biased;
    return made;
  }
};

TEST_P(LlamaStages, train_to_the_same_bits_at_every_cut_thread_count_and_with_recomputed_layers) {
  const Result one = train(config(), 1, "afab");
  EXPECT_LT(one.losses.back(), one.losses.front());
  for (const std::uint32_t ranks : {2u, 3u, 4u}) EXPECT_EQ(train(config(), ranks), one) << ranks << " ranks";
  EXPECT_EQ(train(config(), 2, "zb_h1"), one);  // I and W apart
  LlamaConfig threaded = config();
  for (threaded.threads = 2; threaded.threads <= 3; ++threaded.threads)
    EXPECT_EQ(train(threaded, 1), one) << threaded.threads << " threads";
  LlamaConfig recomputing = config();
  recomputing.recompute_layer = true;
  EXPECT_EQ(train(recomputing, 1), one);
  EXPECT_EQ(train(recomputing, 2, "zb_h1"), one);
}

TEST_P(LlamaStages, compute_smaller_micro_batches_as_if_they_were_the_largest) {
  LlamaConfig exact = config();
  exact.micro_batch_size = 1;
  exact.sequence_length = 33;
  EXPECT_EQ(train(config(), 2, "1f1b", 1, 33), train(exact, 2, "1f1b", 1, 33));
}

INSTANTIATE_TEST_SUITE_P(kinds, LlamaStages,
                         testing::Values(Kind{"float32", DType::float32, false, false},
                                         Kind{"float32_tied_biased", DType::float32, true, true},
                                         Kind{"bfloat16", DType::bfloat16, false, false},
                                         Kind{"bfloat16_tied_biased", DType::bfloat16, true, true}),
                         [](const auto& kind) { return std::string(kind.param.name); });

TEST(LlamaStage, in_bfloat16_learns_almost_like_float32) {
  LlamaConfig config = small_config();
  const Result wide = train(config, 1);
  config.dtype = DType::bfloat16;
  const Result narrow = train(config, 1);
  for (std::size_t i = 0; i < wide.losses.size(); ++i) EXPECT_NEAR(wide.losses[i], narrow.losses[i], 0.02);
}

TEST(LlamaStage, has_the_bias_gradients_of_its_loss) {
  LlamaConfig config = small_config();
  config.attention_bias = true;
  const auto tokens = random_tokens(config, 2, config.sequence_length);
  const TokenBatches batches(tokens.data(), 1, 2, config.sequence_length);
  AdamWConfig frozen;
  frozen.learning_rate = [](std::uint64_t) { return 0.0; };
  LlamaRun run(config, {4}, 1, frozen, 1.0);
  const auto loss_with = [&](const char* name, std::size_t at, float change) {
    run.set_values([&](const Parameter& p) {
      if (p.name == name) reinterpret_cast<float*>(p.value)[at] += change;
    });
    return run.pipeline().step(batches.inputs, batches.targets).loss;
  };
  for (const char* name : {"model.layers.1.self_attn.q_proj.bias", "model.layers.2.self_attn.v_proj.bias",
                           "model.layers.0.self_attn.o_proj.bias"})
    for (const std::size_t at : {std::size_t{0}, std::size_t{17}}) {
      constexpr float step = 0.02f;
      const double above = loss_with(name, at, step);
      const double below = loss_with(name, at, -2 * step);
      loss_with(name, at, step);  // back in the middle
      const auto gradients = run.gradients();
      double largest = 0;
      for (const float g : gradients.at(name)) largest = std::max(largest, std::abs(static_cast<double>(g)));
      EXPECT_NEAR(gradients.at(name)[at], (above - below) / (2 * step), 0.01 * largest) << name << " " << at;
    }
}

TEST(LlamaStage, keeps_only_layer_inputs_when_layers_are_recomputed) {
  LlamaConfig config = small_config();
  const std::size_t input_bytes =
      aligned(sizeof(float) * config.micro_batch_size * config.sequence_length * config.hidden_size);
  const TensorSpec border{DType::float32,
                          Shape{config.micro_batch_size, config.sequence_length, config.hidden_size}, true};
  const StagePlan plain = make_llama_stage(config, 1, 2)->plan({border});
  config.recompute_layer = true;
  const StagePlan recomputed = make_llama_stage(config, 1, 2)->plan({border});
  EXPECT_EQ(recomputed.activation_slot, input_bytes);  // the second layer's
  EXPECT_GT(plain.activation_slot, 5 * recomputed.activation_slot);
  EXPECT_EQ(recomputed.weight_slot, plain.weight_slot);
  EXPECT_EQ(recomputed.state, plain.state);
}

TEST(LlamaStage, halves_its_slots_and_messages_in_bfloat16) {
  LlamaConfig config = small_config();
  const StagePlan wide = make_llama_stage(config, 0, 2)->plan({});
  config.dtype = DType::bfloat16;
  const StagePlan narrow = make_llama_stage(config, 0, 2)->plan({});
  EXPECT_EQ(narrow.outputs[0].bytes() * 2, wide.outputs[0].bytes());
  EXPECT_LT(narrow.activation_slot, wide.activation_slot * 6 / 10);
  EXPECT_LT(narrow.weight_slot, wide.weight_slot * 6 / 10);
}

TEST(LlamaStage, names_the_parameters_as_hugging_face_does_before_and_after_allocation) {
  LlamaConfig config = small_config();
  config.tie_word_embeddings = true;
  config.attention_bias = true;
  config.weight_decay_exclude = {".*norm", "lm_head"};
  const auto first = make_llama_stage(config, 0, 1);
  const auto last = make_llama_stage(config, 3, 1);
  std::vector<std::string> names;
  for (const Parameter& p : first->parameters()) {
    names.push_back(p.name);
    EXPECT_EQ(p.value, nullptr);
    EXPECT_EQ(p.weight_decay, p.name.find("norm") == std::string::npos) << p.name;
  }
  const std::string layer = "model.layers.0.";
  EXPECT_EQ(names, (std::vector<std::string>{
                       "model.embed_tokens.weight", layer + "self_attn.q_proj.weight",
                       layer + "self_attn.q_proj.bias", layer + "self_attn.k_proj.weight",
                       layer + "self_attn.k_proj.bias", layer + "self_attn.v_proj.weight",
                       layer + "self_attn.v_proj.bias", layer + "self_attn.o_proj.weight",
                       layer + "self_attn.o_proj.bias", layer + "mlp.gate_proj.weight",
                       layer + "mlp.up_proj.weight", layer + "mlp.down_proj.weight",
                       layer + "input_layernorm.weight", layer + "post_attention_layernorm.weight"}));
  const std::size_t bytes = first->plan({}).state;
  Arena arena(bytes, "test");
  const auto queue = make_queue({});
  first->allocate(arena, *queue);
  EXPECT_EQ(arena.used(), bytes);
  EXPECT_EQ(first->parameters().size(), names.size());
  EXPECT_EQ(first->parameters()[1].shape, (Shape{60, 36}));
  const auto end = last->parameters();
  EXPECT_EQ(end[end.size() - 2].name, "model.norm.weight");
  EXPECT_EQ(end.back().name, "lm_head.weight");
  EXPECT_EQ(end.back().tied_to, "model.embed_tokens.weight");
  EXPECT_TRUE(end.back().weight_decay) << "it goes by the name of the embedding";
}

TEST(LlamaStage, keeps_its_gradients_in_one_range_whose_padding_stays_zero) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    LlamaConfig config = small_config();
    config.dtype = dtype;
    config.attention_bias = true;
    const auto stage = make_llama_stage(config, 1, 2);
    const TensorSpec border{dtype, Shape{2, 39, config.hidden_size}, true};
    Arena arena(stage->plan({border}).state, "test");
    const auto queue = make_queue({});
    stage->allocate(arena, *queue);
    EXPECT_EQ(arena.used(), arena.size());
    const std::span<float> range = gradient_range(1, stage->parameters());
    std::size_t elements = 0;
    for (const Parameter& p : stage->parameters()) {
      elements += p.shape.elements();
      std::fill_n(p.gradient, p.shape.elements(), 1.0f);
    }
    EXPECT_GT(range.size(), elements);  // 52 columns and biases of 36: there is padding
    EXPECT_EQ(std::accumulate(range.begin(), range.end(), 0.0), static_cast<double>(elements));
  }
}

TEST(LlamaStage, starts_from_weights_that_depend_on_seed_and_name_only) {
  LlamaConfig config = small_config();
  config.vocab_size = 3000;  // more than one thread's chunk
  config.tie_word_embeddings = true;
  const auto start = [](const LlamaConfig& of, std::vector<std::uint32_t> cut) {
    return LlamaRun(of, std::move(cut), 1, adamw(), 1.0).values();
  };
  const auto values = start(config, {4});
  EXPECT_EQ(values.at("model.embed_tokens.weight"), values.at("lm_head.weight"));
  LlamaConfig threaded = config;
  threaded.threads = 2;
  EXPECT_EQ(start(threaded, {1, 2, 1}), values);
  LlamaConfig other = config;
  other.seed = 43;
  EXPECT_NE(start(other, {4}).at("lm_head.weight"), values.at("lm_head.weight"));
  const auto deviation = [&](const std::string& name) {
    const auto& bytes = values.at(name);
    const auto* value = reinterpret_cast<const float*>(bytes.data());
    const std::size_t n = bytes.size() / sizeof(float);
    double squares = 0;
    for (std::size_t i = 0; i < n; ++i) squares += static_cast<double>(value[i]) * value[i];
    return std::sqrt(squares / static_cast<double>(n));
  };
  EXPECT_NEAR(deviation("lm_head.weight"), 0.1, 0.002);
  EXPECT_NEAR(deviation("model.layers.2.self_attn.q_proj.weight"), 0.1, 0.005);
  EXPECT_NEAR(deviation("model.layers.2.self_attn.o_proj.weight"), 0.1 / std::sqrt(8.0), 0.002);
  EXPECT_NEAR(deviation("model.layers.2.mlp.down_proj.weight"), 0.1 / std::sqrt(8.0), 0.002);
  EXPECT_EQ(deviation("model.norm.weight"), 1.0);
}

TEST(LlamaStage, says_what_is_wrong_with_tokens_and_shapes) {
  const LlamaConfig config = small_config();
  const auto message = [&](std::vector<std::int32_t> tokens, std::uint32_t sequence) -> std::string {
    LlamaRun run(config, {4}, 1, adamw(), 1.0);
    try {
      const TokenBatches batches(tokens.data(), 1, 1, sequence);
      run.pipeline().step(batches.inputs, batches.targets);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_THAT(message({1, 75, 3}, 2), testing::HasSubstr("token 75 at position 1"));
  EXPECT_THAT(message({1, 2, -3}, 2), testing::HasSubstr("target -3 at position 1"));
  EXPECT_THAT(message(std::vector<std::int32_t>(41, 0), 40), testing::HasSubstr("up to [2, 39]"));
}

TEST(LlamaConfigCheck, names_the_value_that_does_not_fit) {
  const auto message = [](const std::function<void(LlamaConfig&)>& change) -> std::string {
    LlamaConfig config = small_config();
    change(config);
    try {
      check(config);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  };
  EXPECT_EQ(message([](LlamaConfig&) {}), "");
  EXPECT_THAT(message([](LlamaConfig& c) { c.num_key_value_heads = 4; }),
              testing::HasSubstr("num_key_value_heads (4)"));
  EXPECT_THAT(message([](LlamaConfig& c) { c.vocab_size = 0; }), testing::HasSubstr("vocab_size"));
  EXPECT_THAT(message([](LlamaConfig& c) { c.head_dim = 5; }), testing::HasSubstr("head_dim"));
  EXPECT_THAT(message([](LlamaConfig& c) { c.dtype = DType::int32; }), testing::HasSubstr("int32"));
  EXPECT_THAT(message([](LlamaConfig& c) { c.weight_decay_exclude = {"("}; }), testing::HasSubstr("\"(\""));
  EXPECT_THAT(message([](LlamaConfig& c) { c.rms_norm_eps = NAN; }), testing::HasSubstr("rms_norm_eps"));
  EXPECT_THROW((void)make_llama_stage(small_config(), 3, 2), Error);
  EXPECT_THROW((void)make_llama_stage(small_config(), 0, 0), Error);
  EXPECT_THROW((void)make_llama_stage_factory(small_config(), {1, 2}), Error);
}

TEST(RopeFrequencies, are_scaled_as_the_three_types_say) {
  LlamaConfig config = small_config();
  config.head_dim = 128;
  config.rope_theta = 500000;
  const auto plain = rope_frequencies(config);
  EXPECT_EQ(plain[0], 1.0f);
  EXPECT_NEAR(plain[63], std::pow(500000.0, -126.0 / 128), 1e-12);
  config.rope_scaling = {.type = RopeType::linear, .factor = 4};
  const auto linear = rope_frequencies(config);
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(linear[i], plain[i] / 4);
  config.rope_scaling = {.type = RopeType::llama3,
                         .factor = 8,
                         .low_freq_factor = 1,
                         .high_freq_factor = 4,
                         .original_max_position_embeddings = 8192};
  const auto llama3 = rope_frequencies(config);
  for (std::size_t i = 0; i < 64; ++i) {
    const double wave = 2 * 3.14159265358979 / static_cast<double>(plain[i]);
    if (wave < 8192.0 / 4) {
      EXPECT_EQ(llama3[i], plain[i]);
    } else if (wave > 8192.0) {
      EXPECT_FLOAT_EQ(llama3[i], plain[i] / 8);
    } else {
      EXPECT_TRUE(llama3[i] < plain[i] && llama3[i] > plain[i] / 8) << i;
    }
    if (i > 0) {
      EXPECT_LT(llama3[i], llama3[i - 1]);
    }
  }
}

}  // namespace
}  // namespace weft::test
