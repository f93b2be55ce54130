#pragma once
// The row kernels, written once; each *_LEVEL.cpp beside this file compiles them for its level. As in
// tile_kernel.h no function of the standard library is used: the linker could keep the copy of another level.
#include <cmath>

#include "weft/model/ops/cpu/kernels/lanes.h"
#include "weft/model/ops/cpu/kernels/row_kernels.h"

namespace weft::cpu {
namespace {

inline float inverse_rms(const Lanes& squares, std::size_t n, float epsilon) {
  return 1.0f / __builtin_sqrtf(sum(squares) / static_cast<float>(n) + epsilon);
}

template <class T>
[[gnu::flatten]] void scale_by_gain(const T* x, float factor, const T* gain, T* y, std::size_t n) {
  const Lanes factors = all(factor);
  for_lanes(n, [&](auto at) { at.store(y, at.load(x) * factors * at.load(gain)); });
}

template <class T>
[[gnu::flatten]] float rms_norm(const T* x, const T* gain, T* y, std::size_t n, float epsilon) {
  Lanes squares = all(0);
  for_lanes(n, [&](auto at) {
    const Lanes v = at.load(x);
    squares = multiply_add(v, v, squares);
  });
  const float factor = inverse_rms(squares, n, epsilon);
  scale_by_gain(x, factor, gain, y, n);
  return factor;
}

template <class T>
[[gnu::flatten]] float add_rms_norm(const T* a, const T* b, const T* gain, T* total, T* y, std::size_t n,
                                    float epsilon) {
  for_lanes(n, [&](auto at) { at.store(total, at.load(a) + at.load(b)); });
  return rms_norm(total, gain, y, n, epsilon);
}

template <class T>
[[gnu::flatten]] void rms_norm_backward(const T* x, float factor, const T* gain, const T* dy,
                                        const T* residual, T* dx, T* y, float* gain_gradient, std::size_t n) {
  const Lanes factors = all(factor);
  Lanes products = all(0);
  for_lanes(n, [&](auto at) {
    const Lanes normed = at.load(x) * factors;
    const Lanes g = at.load(gain);
    const Lanes d = at.load(dy);
    products = multiply_add(d * g, normed, products);
    at.store(gain_gradient, multiply_add(d, normed, at.load(gain_gradient)));
    at.store(y, normed * g);
  });
  const Lanes mean = all(sum(products) / static_cast<float>(n));
  if (residual == nullptr) {
    for_lanes(n, [&](auto at) {
      const Lanes normed = at.load(x) * factors;
      at.store(dx, (at.load(dy) * at.load(gain) - normed * mean) * factors);
    });
    return;
  }
  for_lanes(n, [&](auto at) {
    const Lanes normed = at.load(x) * factors;
    at.store(dx, at.load(residual) + (at.load(dy) * at.load(gain) - normed * mean) * factors);
  });
}

[[gnu::always_inline]] inline Lanes sigmoid(const Lanes& x) {
  return all(1.0f) / (all(1.0f) + exponential(all(0.0f) - x));
}

template <class T>
[[gnu::flatten]] void swiglu(const T* gate, const T* up, T* y, std::size_t n) {
  for_lanes(n, [&](auto at) {
    const Lanes g = at.load(gate);
    at.store(y, g * sigmoid(g) * at.load(up));
  });
}

template <class T>
[[gnu::flatten]] void swiglu_backward(const T* gate, const T* up, const T* dy, T* dgate, T* dup, T* y,
                                      std::size_t n) {
  for_lanes(n, [&](auto at) {
    const Lanes g = at.load(gate);
    const Lanes u = at.load(up);
    const Lanes d = at.load(dy);
    const Lanes s = sigmoid(g);
    const Lanes silu = g * s;
    at.store(y, silu * u);
    at.store(dup, d * silu);
    at.store(dgate, d * u * (s + silu * (all(1.0f) - s)));
  });
}

template <class T>
[[gnu::flatten]] void rotate(T* x, const float* cosine, const float* sine, std::size_t half) {
  for_lanes(half, [&](auto at) {
    const Lanes first = at.load(x);
    const Lanes second = at.load(x + half);
    const Lanes c = at.load(cosine);
    const Lanes s = at.load(sine);
    at.store(x, first * c - second * s);
    at.store(x + half, second * c + first * s);
  });
}

template <class T>
[[gnu::flatten]] void rotate_back(const float* x, const float* cosine, const float* sine, T* y,
                                  std::size_t half) {
  for_lanes(half, [&](auto at) {
    const Lanes first = at.load(x);
    const Lanes second = at.load(x + half);
    const Lanes c = at.load(cosine);
    const Lanes s = at.load(sine);
    at.store(y, first * c + second * s);
    at.store(y + half, second * c - first * s);
  });
}

[[gnu::flatten]] inline float largest_of_row(const float* x, std::size_t n) {
  constexpr float none = -INFINITY;
  Lanes most = all(none);
  for_lanes(n, [&](auto at) { most = larger(most, at.load(x, none)); });
  return largest(most);
}

template <class T>
[[gnu::flatten]] double cross_entropy(float* logits, std::size_t n, std::uint32_t target, float scale,
                                      T* gradient) {
  const float most = largest_of_row(logits, n);
  const float target_logit = logits[target];
  Lanes sums = all(0);
  for_lanes(n, [&](auto at) {
    const Lanes e = exponential(at.load(logits) - all(most));
    at.store(logits, e);
    sums = sums + at.valid(e);
  });
  const float total = sum(sums);
  const float factor = scale / total;
  const float target_gradient = logits[target] * factor - scale;
  for_lanes(n, [&](auto at) { at.store(gradient, at.load(logits) * all(factor)); });
  PartialLanes{target, 1}.store(gradient, all(target_gradient));
  return __builtin_log(static_cast<double>(total)) +
         (static_cast<double>(most) - static_cast<double>(target_logit));
}

template <class T>
[[gnu::flatten]] void add(const T* a, const T* b, T* y, std::size_t n) {
  for_lanes(n, [&](auto at) { at.store(y, at.load(a) + at.load(b)); });
}

template <class T>
[[gnu::flatten]] void accumulate(const T* x, float* total, std::size_t n) {
  for_lanes(n, [&](auto at) { at.store(total, at.load(total) + at.load(x)); });
}

template <class T>
[[gnu::flatten]] void scale_row(const float* x, float factor, T* y, std::size_t n) {
  const Lanes factors = all(factor);
  for_lanes(n, [&](auto at) { at.store(y, at.load(x) * factors); });
}

[[gnu::flatten]] inline void multiply(const float* x, const float* factors, float* y, std::size_t n) {
  for_lanes(n, [&](auto at) { at.store(y, at.load(x) * at.load(factors)); });
}

template <class T>
[[gnu::flatten]] void adamw(T* value, float* master, float* gradient, float* first, float* second,
                            std::size_t n, const AdamWFactors& factors) {
  for_lanes(n, [&](auto at) {
    const Lanes g = at.load(gradient) * all(factors.gradient_scale);
    const Lanes old_first = at.load(first);
    const Lanes m = old_first + all(factors.beta1_rest) * (g - old_first);
    const Lanes v = at.load(second) * all(factors.beta2) + all(factors.beta2_rest) * g * g;
    const Lanes root = square_root(v) / all(factors.second_moment_correction) + all(factors.epsilon);
    const Lanes before = master != nullptr ? at.load(master) : at.load(value);
    const Lanes after = before * all(factors.keep) - all(factors.step_size) * (m / root);
    at.store(first, m);
    at.store(second, v);
    at.store(gradient, all(0));
    if (master != nullptr) at.store(master, after);
    at.store(value, after);
  });
}

template <class T>
[[gnu::flatten]] void sgd(T* value, float* master, float* gradient, std::size_t n,
                          const SgdFactors& factors) {
  for_lanes(n, [&](auto at) {
    const Lanes before = master != nullptr ? at.load(master) : at.load(value);
    const Lanes g = at.load(gradient) * all(factors.gradient_scale) + all(factors.weight_decay) * before;
    const Lanes after = before - all(factors.learning_rate) * g;
    at.store(gradient, all(0));
    if (master != nullptr) at.store(master, after);
    at.store(value, after);
  });
}

/// Calls body(row, hidden) for each row of a score block, where the first `hidden` lanes, from lane `at` on,
/// are queries that come before this row's key.
template <class Body>
[[gnu::always_inline]] inline void for_keys(const ScoreBlock& block, std::size_t at, Body&& body) {
  const std::size_t seen_by_all = block.keys < block.first_query ? block.keys : block.first_query;
  std::size_t key = 0;
  for (; key < seen_by_all; ++key) body(key * block.width, std::size_t{0});
  for (; key < block.keys; ++key) {
    const std::size_t earlier = key - block.first_query;  // queries before this key
    body(key * block.width, earlier < at ? 0 : earlier - at < lane_count ? earlier - at : lane_count);
  }
}

[[gnu::flatten]] inline void softmax(const ScoreBlock& block, float* scores, float* largest_score,
                                     float* inverse_sum) {
  for_lanes(block.width, [&](auto at) {
    constexpr float none = -INFINITY;
    Lanes most = all(none);
    for_keys(block, at.at, [&](std::size_t row, std::size_t hidden) {
      most = larger(most, replace_first(at.load(scores + row), hidden, none));
    });
    Lanes total = all(0);
    for_keys(block, at.at, [&](std::size_t row, std::size_t hidden) {
      const Lanes e = exponential((at.load(scores + row) - most) * all(block.scale));
      const Lanes seen = replace_first(e, hidden, 0);
      at.store(scores + row, seen);
      total = total + seen;
    });
    at.store(largest_score, most);
    at.store(inverse_sum, all(1.0f) / total);
  });
}

[[gnu::flatten]] inline void softmax_backward(const ScoreBlock& block, float* scores, float* dp,
                                              const float* largest_score, const float* inverse_sum) {
  for_lanes(block.width, [&](auto at) {
    const Lanes most = at.load(largest_score);
    const Lanes factor = at.load(inverse_sum);
    Lanes delta = all(0);
    for_keys(block, at.at, [&](std::size_t row, std::size_t hidden) {
      const Lanes e = exponential((at.load(scores + row) - most) * all(block.scale));
      const Lanes p = replace_first(e, hidden, 0) * factor;
      at.store(scores + row, p);
      delta = multiply_add(p, at.load(dp + row), delta);
    });
    for_keys(block, at.at, [&](std::size_t row, std::size_t) {
      const Lanes p = at.load(scores + row);
      at.store(dp + row, (at.load(dp + row) - delta) * (p * all(block.scale)));
    });
  });
}

[[gnu::flatten]] inline void exponential_row(const float* x, float* y, std::size_t n) {
  for_lanes(n, [&](auto at) { at.store(y, exponential(at.load(x))); });
}

template <class T>
constexpr RowKernels<T> row_kernels_of_level{
    .rms_norm = rms_norm<T>,
    .add_rms_norm = add_rms_norm<T>,
    .rms_norm_backward = rms_norm_backward<T>,
    .swiglu = swiglu<T>,
    .swiglu_backward = swiglu_backward<T>,
    .rotate = rotate<T>,
    .rotate_back = rotate_back<T>,
    .cross_entropy = cross_entropy<T>,
    .add = add<T>,
    .accumulate = accumulate<T>,
    .scale = scale_row<T>,
    .adamw = adamw<T>,
    .sgd = sgd<T>,
};
constexpr SoftmaxKernels softmax_kernels_of_level{.softmax = softmax,
                                                  .softmax_backward = softmax_backward,
                                                  .multiply = multiply,
                                                  .exponential = exponential_row};

}  // namespace
}  // namespace weft::cpu
