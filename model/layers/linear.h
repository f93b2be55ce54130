#pragma once
// A linear layer, y = x w^T (+ bias), whose weight may hold several projections of one input below one
// another.
#include <cstddef>
#include <span>

#include "weft/model/layers/trained.h"
#include "weft/model/ops/ops.h"

namespace weft {

template <class T>
class Linear {
 public:
  /// A layer of `out` features from `in`, with `bias` features of bias: none or all of `out`.
  Linear(std::size_t out, std::size_t in, std::size_t bias) : out_(out), in_(in), bias_count_(bias) {}

  void lay_out(StateCarver& carve, const OpSizes<T>& sizes);
  void pack(const Ops<T>& ops) const { ops.pack(packed_); }
  [[nodiscard]] const Trained<T>& weight() const noexcept { return weight_; }
  [[nodiscard]] const Trained<T>& bias() const noexcept { return bias_; }
  [[nodiscard]] std::size_t out() const noexcept { return out_; }
  [[nodiscard]] std::size_t in() const noexcept { return in_; }
  [[nodiscard]] bool has_bias() const noexcept { return bias_count_ != 0; }

  /// x[rows, in] -> y[rows, out].
  void forward(const Ops<T>& ops, const T* x, T* y, std::size_t rows) const;
  /// x[rows, in] -> y[rows, out] in float; a bias is not added.
  void forward_float(const Ops<T>& ops, const T* x, float* y, std::size_t rows) const;
  /// dy[rows, out] -> dx[rows, in].
  void backward_input(const Ops<T>& ops, const T* dy, T* dx, std::size_t rows) const;
  /// The weight's gradient += dy[rows, out]^T x[rows, in].
  void backward_weight(const Ops<T>& ops, const T* dy, const T* x, std::size_t rows,
                       std::span<std::byte> workspace) const;
  [[nodiscard]] std::size_t backward_weight_workspace(const OpSizes<T>& sizes, std::size_t rows) const {
    return sizes.backward_weight_workspace(rows, out_, in_);
  }
  /// Number of floats of a bias's gradient, 0 without one.
  [[nodiscard]] std::size_t bias_count() const noexcept { return bias_count_; }

 private:
  std::size_t out_;
  std::size_t in_;
  std::size_t bias_count_;
  Trained<T> weight_;
  Trained<T> bias_;
  LinearWeight<T> packed_;
};

}  // namespace weft
