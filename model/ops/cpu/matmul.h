#pragma once
// The three products of a linear layer y = x w^T, for T = float and T = BFloat16.
//
// Exact by construction: every output element is one chain of multiply-adds over the summed dimension, in
// ascending order, in float. Rows and columns are cut into blocks and handed to threads at will; no cut,
// thread count or number of rows changes a bit of any element. BFloat16 results are rounded once, at the end
// of the chain.
#include <cstddef>
#include <span>

#include "weft/model/ops/cpu/matrix.h"
#include "weft/model/ops/cpu/thread_team.h"
#include "weft/tensor/bfloat16.h"

namespace weft::cpu {

/// A weight w[out, in] in the two packed forms that forward and backward-for-input read. Packed anew after
/// every update of the weight. It does not own its memory and does not keep w.
template <class T>
class PackedWeight {
 public:
  /// Bytes of memory for a weight of this shape at this CPU level.
  [[nodiscard]] static std::size_t bytes(std::size_t out, std::size_t in);

  PackedWeight() = default;
  /// `memory` begins on a 64-byte border and holds at least bytes(out, in). Throws Error otherwise.
  PackedWeight(std::size_t out, std::size_t in, std::span<std::byte> memory);

  /// Packs w[out, in].
  void pack(ThreadTeam& team, Matrix<const T> w);

  [[nodiscard]] std::size_t out() const noexcept { return out_; }
  [[nodiscard]] std::size_t in() const noexcept { return in_; }
  [[nodiscard]] const std::byte* forward_panels() const noexcept { return memory_; }
  [[nodiscard]] const std::byte* backward_panels() const noexcept { return memory_ + forward_bytes_; }

 private:
  std::size_t out_ = 0;
  std::size_t in_ = 0;
  std::size_t forward_bytes_ = 0;
  std::byte* memory_ = nullptr;
};

/// y[rows, out] = x[rows, in] w^T. Throws Error when the shapes do not fit.
template <class T>
void linear_forward(ThreadTeam& team, Matrix<const T> x, const PackedWeight<T>& w, Matrix<T> y);

/// The same with the result kept in float (logits, for example); for T = BFloat16.
void linear_forward(ThreadTeam& team, Matrix<const BFloat16> x, const PackedWeight<BFloat16>& w,
                    Matrix<float> y);

/// One summand of an input gradient: dy[rows, out] w.
template <class T>
struct InputGradientTerm {
  Matrix<const T> dy;
  const PackedWeight<T>* w = nullptr;
};

/// dx[rows, in] = sum over `terms`, in their order, of dy[rows, out] w[out, in]: one chain per element
/// through the output features of the first weight, then the second, ... as if the weights stood below one
/// another in one matrix. For layers that share an input (q, k, v; gate, up). Throws Error when the shapes do
/// not fit or there is no term.
template <class T>
void linear_backward_input(ThreadTeam& team, std::span<const InputGradientTerm<T>> terms, Matrix<T> dx);

/// Bytes of workspace that linear_backward_weight needs for at most `rows` rows.
template <class T>
[[nodiscard]] std::size_t backward_weight_workspace(std::size_t rows, std::size_t out, std::size_t in);

/// dw[out, in] += dy[rows, out]^T x[rows, in]. The chain starts at the value in dw and goes through the rows.
/// `workspace` begins on a 64-byte border. Throws Error when the shapes do not fit or the workspace is too
/// small.
template <class T>
void linear_backward_weight(ThreadTeam& team, Matrix<const T> dy, Matrix<const T> x, Matrix<float> dw,
                            std::span<std::byte> workspace);

}  // namespace weft::cpu
