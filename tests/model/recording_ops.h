#pragma once
// Ops that compute nothing and note their names.
#include <string>
#include <utility>
#include <vector>

#include "weft/model/ops/ops.h"

namespace weft::test {

template <class T>
class RecordingOps final : public Ops<T> {
 public:
  explicit RecordingOps(const OpSizes<T>& sizes) : sizes_(sizes) {}
  /// What was called since the last time.
  [[nodiscard]] std::vector<std::string> take() const { return std::exchange(calls_, {}); }

  using N = std::size_t;
  using Bytes = std::span<std::byte>;
  using Tokens = const std::int32_t*;
  using Weight = const LinearWeight<T>&;
  using Shape = const AttentionShape&;
  // clang-format off
  const OpSizes<T>& sizes() const noexcept override { return sizes_; }
  void set_poll(Poll) const noexcept override {}
  void embedding_forward(Tokens, const T*, T*, N, N) const override { note("embedding_forward"); }
  void embedding_backward(Tokens, const T*, float*, N, N) const override { note("embedding_backward"); }
  void rms_norm_forward(const T*, const T*, T*, float*, N, N, float) const override { note("rms_norm_forward"); }
  void add_rms_norm_forward(const T*, const T*, const T*, T*, T*, float*, N, N, float) const override { note("add_rms_norm_forward"); }
  void rms_norm_backward(const T*, const float*, const T*, const T*, const T*, T*, T*, float*, N, N, float*) const override { note("rms_norm_backward"); }
  void pack(Weight) const override { note("pack"); }
  void linear_forward(const T*, Weight, T*, N) const override { note("linear_forward"); }
  void linear_forward_float(const T*, Weight, float*, N) const override { note("linear_forward_float"); }
  void linear_backward_input(const T*, Weight, T*, N) const override { note("linear_backward_input"); }
  void linear_backward_weight(const T*, const T*, float*, N, N, N, Bytes) const override { note("linear_backward_weight"); }
  void add_bias(T*, const T*, N, N) const override { note("add_bias"); }
  void column_sum(const T*, float*, N, N, float*) const override { note("column_sum"); }
  void rope_forward(T*, const float*, const float*, N, N, N, N, N) const override { note("rope_forward"); }
  void attention_forward(Shape, const T*, T*, float*, Bytes) const override { note("attention_forward"); }
  void attention_backward(Shape, const T*, const float*, const T*, const float*, const float*, T*, Bytes) const override { note("attention_backward"); }
  void swiglu_forward(const T*, T*, N, N) const override { note("swiglu_forward"); }
  void swiglu_backward(const T*, const T*, T*, T*, N, N) const override { note("swiglu_backward"); }
  void add(const T*, const T*, T*, N, N) const override { note("add"); }
  void copy(const T*, T*, N, N) const override { note("copy"); }
  void accumulate(const float*, float*, N) const override { note("accumulate"); }
  void cross_entropy(float*, Tokens, float, T*, double*, double*, N, N) const override { note("cross_entropy"); }
  void adamw(T*, float*, float*, float*, float*, N, const AdamWFactors&) const override { note("adamw"); }
  void sgd(T*, float*, float*, N, const SgdFactors&) const override { note("sgd"); }
  // clang-format on

 private:
  void note(const char* name) const { calls_.push_back(name); }
  const OpSizes<T>& sizes_;
  mutable std::vector<std::string> calls_;
};

}  // namespace weft::test
