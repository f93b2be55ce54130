// Scores lie as [keys, queries], one block of queries as wide as a panel of the product's kernel: then keys
// and values are read in place, a block is itself a packed right operand, and the softmax runs along lanes.
#include "weft/model/ops/cpu/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "weft/base/error.h"
#include "weft/model/ops/cpu/attention_scratch.h"
#include "weft/model/ops/cpu/row_kernels.h"
#include "weft/tensor/carver.h"

namespace weft::cpu {
namespace {

/// function(unit, scratch) for every (sample, key head), each thread with its own scratch.
template <class Scratch, class Function>
void for_units(ThreadTeam& team, const AttentionShape& shape, std::span<std::byte> workspace,
               Function&& function) {
  const std::size_t units = shape.batch * shape.kv_heads;
  const std::size_t workers = std::min(units, static_cast<std::size_t>(team.threads()));
  const std::size_t bytes = scratch_bytes<Scratch>(shape);
  if (workspace.size() < workers * bytes) throw Error("the workspace for attention is too small");
  std::atomic<std::size_t> next{0};
  team.parallel_for(workers, [&](std::size_t worker) {
    Carver carve(workspace.data() + worker * bytes);
    const Scratch scratch(carve, shape);
    for (std::size_t unit = next++; unit < units; unit = next++) function(unit, scratch);
  });
}

/// What belongs to one (sample, key head).
struct Unit {
  const AttentionShape& shape;
  std::size_t sample;
  std::size_t kv_head;

  Unit(const AttentionShape& shape_, std::size_t unit)
      : shape(shape_), sample(unit / shape_.kv_heads), kv_head(unit % shape_.kv_heads) {}

  [[nodiscard]] std::size_t group() const { return shape.heads / shape.kv_heads; }
  [[nodiscard]] std::size_t first_head() const { return kv_head * group(); }
  /// [sequence, head_dim] of the queries of a head; the keys follow as head `heads` + kv_head, then the
  /// values.
  template <class U>
  [[nodiscard]] Matrix<U> head_of_qkv(U* qkv, std::size_t head) const {
    return Matrix<U>(qkv + sample * shape.sequence * shape.qkv_columns() + head * shape.head_dim,
                     shape.sequence, shape.head_dim, shape.qkv_columns());
  }
  template <class U>
  [[nodiscard]] Matrix<U> keys(U* qkv) const {
    return head_of_qkv(qkv, shape.heads + kv_head);
  }
  template <class U>
  [[nodiscard]] Matrix<U> values(U* qkv) const {
    return head_of_qkv(qkv, shape.heads + shape.kv_heads + kv_head);
  }
  template <class U>
  [[nodiscard]] Matrix<U> head_of_out(U* out, std::size_t head) const {
    return Matrix<U>(out + sample * shape.sequence * shape.out_columns() + head * shape.head_dim,
                     shape.sequence, shape.head_dim, shape.out_columns());
  }
  /// The largest scores of a head's queries; the inverse sums follow.
  template <class U>
  [[nodiscard]] U* statistics(U* all, std::size_t head) const {
    return all + (sample * shape.heads + head) * 2 * shape.sequence;
  }
};

/// A block of queries: number, and the keys that the last of them sees.
struct QueryBlock {
  std::size_t first;
  std::size_t count;
  [[nodiscard]] std::size_t keys() const noexcept { return first + count; }
};

template <class Function>
void for_query_blocks(ThreadTeam& team, std::size_t sequence, Function&& function) {
  const std::size_t width = kernel<float>().columns;
  for (std::size_t first = 0; first < sequence; first += width) {
    function(QueryBlock{first, std::min(width, sequence - first)});
    team.poll();
  }
}

float score_scale(const AttentionShape& shape) {
  return 1.0f / std::sqrt(static_cast<float>(shape.head_dim));
}

}  // namespace

std::size_t attention_workspace(const AttentionShape& shape, int threads) {
  return std::max(scratch_bytes<ForwardScratch>(shape), scratch_bytes<BackwardScratch>(shape)) *
         std::min(shape.batch * shape.kv_heads, static_cast<std::size_t>(threads));
}

template <class T>
void attention_forward(ThreadTeam& team, const AttentionShape& shape, const T* qkv, T* out, float* statistics,
                       std::span<std::byte> workspace) {
  const auto& rows = row_kernels<T>();
  const auto& softmax = softmax_kernels();
  const std::size_t width = kernel<float>().columns;
  const std::size_t d = shape.head_dim;
  for_units<ForwardScratch>(team, shape, workspace, [&](std::size_t number, const ForwardScratch& scratch) {
    const Unit unit(shape, number);
    scratch.keys.fill(unit.keys(qkv));
    scratch.values_transposed.fill(unit.values(qkv).transposed());
    for (std::size_t head = unit.first_head(); head < unit.first_head() + unit.group(); ++head) {
      const Matrix<const T> queries = unit.head_of_qkv(qkv, head);
      const Matrix<T> result = unit.head_of_out(out, head);
      float* largest = unit.statistics(statistics, head);
      float* inverse_sums = largest + shape.sequence;
      for_query_blocks(team, shape.sequence, [&](QueryBlock block) {
        pack_panel(queries.row_range(block.first, block.count).transposed(), 0, scratch.queries_transposed);
        multiply_panel(block.keys(), d, scratch.keys, scratch.queries_transposed, scratch.scores);
        team.poll();
        softmax.softmax({block.keys(), width, block.first, score_scale(shape)}, scratch.scores,
                        scratch.largest, scratch.inverse_sums);
        std::copy_n(scratch.largest, block.count, largest + block.first);
        std::copy_n(scratch.inverse_sums, block.count, inverse_sums + block.first);
        multiply_panel(d, block.keys(), scratch.values_transposed, scratch.scores, scratch.result);
        for (std::size_t i = 0; i < d; ++i)
          softmax.multiply(scratch.result + i * width, scratch.inverse_sums, scratch.result + i * width,
                           width);
        copy_rows(Matrix<const float>(scratch.result, d, block.count, width).transposed(), scratch.rows, d);
        for (std::size_t i = 0; i < block.count; ++i)
          rows.scale(scratch.rows + i * d, 1.0f, &result.at(block.first + i, 0), d);
      });
    }
  });
}

template <class T>
void attention_backward(ThreadTeam& team, const AttentionShape& shape, const T* qkv, const float* statistics,
                        const T* out_gradient, const float* cosine, const float* sine, T* qkv_gradient,
                        std::span<std::byte> workspace) {
  const auto& rows = row_kernels<T>();
  const auto& softmax = softmax_kernels();
  const std::size_t width = kernel<float>().columns;
  const std::size_t d = shape.head_dim;
  const std::size_t half = d / 2;
  for_units<BackwardScratch>(team, shape, workspace, [&](std::size_t number, const BackwardScratch& scratch) {
    const Unit unit(shape, number);
    scratch.keys.fill(unit.keys(qkv));
    scratch.values.fill(unit.values(qkv));
    scratch.keys_transposed.fill(unit.keys(qkv).transposed());
    scratch.key_gradient.clear();
    scratch.value_gradient.clear();
    for (std::size_t head = unit.first_head(); head < unit.first_head() + unit.group(); ++head) {
      const Matrix<const T> queries = unit.head_of_qkv(qkv, head);
      const Matrix<const T> gradients = unit.head_of_out(out_gradient, head);
      const Matrix<T> query_gradient = unit.head_of_qkv(qkv_gradient, head);
      const float* largest = unit.statistics(statistics, head);
      const float* inverse_sums = largest + shape.sequence;
      for_query_blocks(team, shape.sequence, [&](QueryBlock block) {
        const auto query_rows = queries.row_range(block.first, block.count);
        const auto gradient_rows = gradients.row_range(block.first, block.count);
        pack_panel(query_rows.transposed(), 0, scratch.queries_transposed);
        pack_panel(gradient_rows.transposed(), 0, scratch.gradients_transposed);
        multiply_panel(block.keys(), d, scratch.keys, scratch.queries_transposed, scratch.scores);
        multiply_panel(block.keys(), d, scratch.values, scratch.gradients_transposed,
                       scratch.score_gradients);
        team.poll();
        std::copy_n(largest + block.first, block.count, scratch.largest);
        std::copy_n(inverse_sums + block.first, block.count, scratch.inverse_sums);
        softmax.softmax_backward({block.keys(), width, block.first, score_scale(shape)}, scratch.scores,
                                 scratch.score_gradients, scratch.largest, scratch.inverse_sums);
        multiply_add_panels(block.keys(), scratch.scores, gradient_rows, scratch.panels,
                            scratch.value_gradient);
        team.poll();
        multiply_add_panels(block.keys(), scratch.score_gradients, query_rows, scratch.panels,
                            scratch.key_gradient);
        team.poll();
        multiply_panel(d, block.keys(), scratch.keys_transposed, scratch.score_gradients, scratch.result);
        copy_rows(Matrix<const float>(scratch.result, d, block.count, width).transposed(), scratch.rows, d);
        for (std::size_t i = 0; i < block.count; ++i) {
          const std::size_t angles = (block.first + i) * half;
          rows.rotate_back(scratch.rows + i * d, cosine + angles, sine + angles,
                           &query_gradient.at(block.first + i, 0), half);
        }
      });
    }
    const Matrix<T> keys_out = unit.keys(qkv_gradient);
    const Matrix<T> values_out = unit.values(qkv_gradient);
    for (std::size_t i = 0; i < shape.sequence; ++i) {
      rows.rotate_back(scratch.key_gradient.row(i), cosine + i * half, sine + i * half, &keys_out.at(i, 0),
                       half);
      rows.scale(scratch.value_gradient.row(i), 1.0f, &values_out.at(i, 0), d);
    }
  });
}

template void attention_forward(ThreadTeam&, const AttentionShape&, const float*, float*, float*,
                                std::span<std::byte>);
template void attention_forward(ThreadTeam&, const AttentionShape&, const BFloat16*, BFloat16*, float*,
                                std::span<std::byte>);
template void attention_backward(ThreadTeam&, const AttentionShape&, const float*, const float*, const float*,
                                 const float*, const float*, float*, std::span<std::byte>);
template void attention_backward(ThreadTeam&, const AttentionShape&, const BFloat16*, const float*,
                                 const BFloat16*, const float*, const float*, BFloat16*,
                                 std::span<std::byte>);

}  // namespace weft::cpu
