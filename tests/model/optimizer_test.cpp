// AdamW and SGD against their formulas in double.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "weft/base/random.h"
#include "weft/model/optimizer/adamw.h"
#include "weft/model/optimizer/sgd.h"
#include "weft/tensor/bfloat16.h"

namespace weft {
namespace {

/// A parameter with its own memory.
template <class T>
struct Owned {
  std::vector<T> value;
  std::vector<float> gradient, master;
  Parameter parameter;

  Owned(std::uint32_t n, std::uint64_t stream) : value(n), gradient(n), master(n) {
    CounterRandom(3, RandomPurpose::test, stream).fill_normal(0, 1, master);
    for (std::uint32_t i = 0; i < n; ++i) value[i] = from_float<T>(master[i]);
    parameter.name = std::to_string(stream);
    parameter.shape = Shape{n};
    parameter.value = reinterpret_cast<std::byte*>(value.data());
    parameter.gradient = gradient.data();
    if constexpr (std::is_same_v<T, BFloat16>) {
      parameter.dtype = DType::bfloat16;
      parameter.master = master.data();
    }
  }
  void set_gradient(std::uint64_t step) {
    CounterRandom(5, RandomPurpose::test, step).fill_normal(0, 1, gradient);
  }
};

const std::unique_ptr<Queue> queue = make_queue({});

double rate(std::uint64_t step) { return step == 1 ? 0.0 : 0.01 / static_cast<double>(step); }

AdamWConfig adamw_config(int threads) {
  AdamWConfig config;
  config.learning_rate = rate;
  config.beta2 = 0.95;
  config.weight_decay = 0.1;
  config.threads = threads;
  return config;
}

TEST(AdamW, follows_its_formula_with_clipping_and_decay) {
  Owned<float> decayed(40'001, 1), excluded(7, 2);
  excluded.parameter.weight_decay = false;
  std::vector<Parameter*> list{&decayed.parameter, &excluded.parameter};
  AdamWOptimizer optimizer(adamw_config(2));
  Arena arena(optimizer.state_bytes(list), "test");
  optimizer.allocate(list, arena, *queue);
  EXPECT_EQ(arena.used(), arena.size());
  for (Owned<float>* owned : {&decayed, &excluded}) {
    const double decay = owned == &decayed ? 0.1 : 0.0;
    const std::size_t n = owned->value.size();
    std::vector<double> w(owned->value.begin(), owned->value.end()), m(n), v(n);
    Owned<float> fresh(static_cast<std::uint32_t>(n), owned == &decayed ? 1 : 2);
    AdamWOptimizer alone(adamw_config(1));
    fresh.parameter.weight_decay = owned->parameter.weight_decay;
    std::vector<Parameter*> one{&fresh.parameter};
    Arena memory(alone.state_bytes(one), "test");
    alone.allocate(one, memory, *queue);
    for (std::uint64_t step = 1; step <= 5; ++step) {
      fresh.set_gradient(step);
      for (std::size_t i = 0; i < n; ++i) {
        const double g = static_cast<double>(fresh.gradient[i]) * 0.5;
        m[i] = 0.9 * m[i] + 0.1 * g;
        v[i] = 0.95 * v[i] + 0.05 * g * g;
        const double t = static_cast<double>(step);
        const double mean = m[i] / (1 - std::pow(0.9, t));
        const double root = std::sqrt(v[i] / (1 - std::pow(0.95, t)));
        w[i] = w[i] * (1 - rate(step) * decay) - rate(step) * mean / (root + 1e-8);
      }
      alone.update(step, 0.5);
      for (const float g : fresh.gradient) ASSERT_EQ(g, 0);
    }
    for (std::size_t i = 0; i < n; ++i) ASSERT_NEAR(fresh.value[i], w[i], 2e-6) << i;
    owned->value = fresh.value;  // for the comparison below
  }
  // Together, with two threads: the same bits.
  const std::vector<float> expected = decayed.value, expected_excluded = excluded.value;
  decayed.value = Owned<float>(40'001, 1).value;
  excluded.value = Owned<float>(7, 2).value;
  decayed.parameter.value = reinterpret_cast<std::byte*>(decayed.value.data());
  excluded.parameter.value = reinterpret_cast<std::byte*>(excluded.value.data());
  for (std::uint64_t step = 1; step <= 5; ++step) {
    decayed.set_gradient(step);
    excluded.set_gradient(step);
    optimizer.update(step, 0.5);
  }
  EXPECT_EQ(decayed.value, expected);
  EXPECT_EQ(excluded.value, expected_excluded);
}

TEST(AdamW, keeps_float_masters_of_bfloat16_values) {
  Owned<BFloat16> narrow(1000, 1);
  Owned<float> wide(1000, 1);
  std::vector<Parameter*> list{&narrow.parameter, &wide.parameter};
  AdamWOptimizer optimizer(adamw_config(1));
  Arena arena(optimizer.state_bytes(list), "test");
  optimizer.allocate(list, arena, *queue);
  for (std::uint64_t step = 1; step <= 20; ++step) {
    narrow.set_gradient(step);
    wide.set_gradient(step);
    optimizer.update(step, 1);
  }
  EXPECT_EQ(narrow.master, wide.value);
  for (std::size_t i = 0; i < 1000; ++i) ASSERT_EQ(narrow.value[i], to_bfloat16(narrow.master[i]));
}

TEST(AdamW, names_its_state_after_the_parameters) {
  Owned<float> p(3, 4);
  std::vector<Parameter*> list{&p.parameter};
  AdamWOptimizer optimizer(adamw_config(1));
  Arena arena(optimizer.state_bytes(list), "test");
  optimizer.allocate(list, arena, *queue);
  p.set_gradient(1);
  const float first = p.gradient[0];
  optimizer.update(1, 1);
  const auto state = optimizer.state();
  ASSERT_EQ(state.size(), 2u);
  EXPECT_EQ(state[0].name, "4.exp_avg");
  EXPECT_EQ(state[1].name, "4.exp_avg_sq");
  EXPECT_FLOAT_EQ(state[0].value[0], 0.1f * first);
  EXPECT_FLOAT_EQ(state[1].value[0], 0.05f * first * first);
}

TEST(Sgd, follows_its_formula) {
  Owned<float> p(100, 1);
  Owned<BFloat16> narrow(100, 1);
  const std::vector<float> before = p.value;
  std::vector<Parameter*> list{&p.parameter, &narrow.parameter};
  SgdConfig config;
  config.learning_rate = [](std::uint64_t) { return 0.1; };
  config.weight_decay = 0.2;
  SgdOptimizer optimizer(config);
  EXPECT_EQ(optimizer.state_bytes(list), 0u);
  Arena arena(0, "test");
  optimizer.allocate(list, arena, *queue);
  p.set_gradient(1);
  narrow.set_gradient(1);
  const std::vector<float> gradient = p.gradient;
  optimizer.update(1, 0.5);
  for (std::size_t i = 0; i < 100; ++i) {
    ASSERT_NEAR(p.value[i], before[i] - 0.1 * (0.5 * gradient[i] + 0.2 * before[i]), 1e-6);
    ASSERT_EQ(p.gradient[i], 0);
  }
  EXPECT_EQ(narrow.master, p.value);
}

TEST(Optimizers, refuse_numbers_that_make_no_sense) {
  AdamWConfig config = adamw_config(1);
  config.beta1 = 1;
  EXPECT_THROW(AdamWOptimizer{config}, Error);
  config = adamw_config(1);
  config.weight_decay = NAN;
  EXPECT_THROW(AdamWOptimizer{config}, Error);
  config.learning_rate = {};
  EXPECT_THROW(AdamWOptimizer{config}, Error);
  EXPECT_THROW(SgdOptimizer{SgdConfig{}}, Error);
}

}  // namespace
}  // namespace weft
