#include "weft/model/ops/cpu/attention.h"

#include <algorithm>
#include <atomic>
#include <cmath>

#include "weft/base/error.h"
#include "weft/model/carver.h"
#include "weft/model/ops/cpu/row_kernels.h"
#include "weft/model/ops/cpu/small_matmul.h"

namespace weft::cpu {
namespace {

// Queries of one product. No bit depends on it: every sum goes through queries or keys in ascending order.
constexpr std::size_t query_block = 32;

/// What one thread needs at a time, for one head of keys.
struct Scratch {
  std::span<float> keys;             // [sequence, head_dim], packed
  std::span<float> keys_transposed;  // [head_dim, sequence], packed; likewise the values
  std::span<float> values;
  std::span<float> queries;  // [query_block, head_dim], packed
  float* scores;             // [query_block, sequence]
  float* score_gradients;
  float* block;         // [query_block, head_dim]
  float* key_gradient;  // [sequence, head_dim]
  float* value_gradient;

  Scratch(Carver& carve, const AttentionShape& shape) {
    const std::size_t s = shape.sequence;
    const std::size_t d = shape.head_dim;
    const auto packed = [&](std::size_t k, std::size_t n) {
      const std::size_t floats = PackedOperand::floats(k, n);
      return std::span(carve.take<float>(floats), floats);
    };
    keys = packed(s, d);
    keys_transposed = packed(d, s);
    // forward packs the values as they are, backward transposed
    const std::size_t value_floats = std::max(PackedOperand::floats(s, d), PackedOperand::floats(d, s));
    values = std::span(carve.take<float>(value_floats), value_floats);
    queries = packed(query_block, d);
    scores = carve.take<float>(query_block * s);
    score_gradients = carve.take<float>(query_block * s);
    block = carve.take<float>(query_block * d);
    key_gradient = carve.take<float>(s * d);
    value_gradient = carve.take<float>(s * d);
  }
};

std::size_t scratch_bytes(const AttentionShape& shape) {
  Carver count;
  Scratch scratch(count, shape);
  return count.used();
}

/// The matrices of one (sample, key head) in the big ones.
template <class T>
struct Views {
  const AttentionShape& shape;
  std::size_t first_row;  // of the sample
  std::size_t kv_head;

  Views(const AttentionShape& shape_, std::size_t unit)
      : shape(shape_), first_row(unit / shape_.kv_heads * shape_.sequence), kv_head(unit % shape_.kv_heads) {}

  template <class U>
  [[nodiscard]] Matrix<U> columns_of_qkv(U* qkv, std::size_t head) const {
    return Matrix<U>(qkv + first_row * shape.qkv_columns() + head * shape.head_dim, shape.sequence,
                     shape.head_dim, shape.qkv_columns());
  }
  template <class U>
  [[nodiscard]] Matrix<U> keys(U* qkv) const {
    return columns_of_qkv(qkv, shape.heads + kv_head);
  }
  template <class U>
  [[nodiscard]] Matrix<U> values(U* qkv) const {
    return columns_of_qkv(qkv, shape.heads + shape.kv_heads + kv_head);
  }
  template <class U>
  [[nodiscard]] Matrix<U> head_of_out(U* out, std::size_t head) const {
    return Matrix<U>(out + first_row * shape.out_columns() + head * shape.head_dim, shape.sequence,
                     shape.head_dim, shape.out_columns());
  }
  [[nodiscard]] std::size_t sums(std::size_t head) const {
    return (first_row / shape.sequence * shape.heads + head) * shape.sequence;
  }
};

/// function(unit, scratch) for every (sample, key head), each thread with its own scratch.
template <class Function>
void for_units(ThreadTeam& team, const AttentionShape& shape, std::span<std::byte> workspace,
               Function&& function) {
  const std::size_t units = shape.batch * shape.kv_heads;
  const std::size_t workers = std::min(units, static_cast<std::size_t>(team.threads()));
  const std::size_t bytes = scratch_bytes(shape);
  if (workspace.size() < workers * bytes) throw Error("the workspace for attention is too small");
  std::atomic<std::size_t> next{0};
  team.parallel_for(workers, [&](std::size_t worker) {
    Carver carve(workspace.data() + worker * bytes);
    Scratch scratch(carve, shape);
    for (std::size_t unit = next++; unit < units; unit = next++) function(unit, scratch);
  });
}

template <class T>
Matrix<const T> as_const(Matrix<T> matrix) {
  return matrix;
}

}  // namespace

std::size_t attention_workspace(const AttentionShape& shape, int threads) {
  return scratch_bytes(shape) * std::min(shape.batch * shape.kv_heads, static_cast<std::size_t>(threads));
}

template <class T>
void attention_forward(ThreadTeam& team, const AttentionShape& shape, const T* qkv, T* out,
                       float* log_sum_exp, std::span<std::byte> workspace) {
  const auto& rows = row_kernels<T>();
  const auto& softmax = softmax_kernels();
  const std::size_t d = shape.head_dim;
  const std::size_t group = shape.heads / shape.kv_heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  for_units(team, shape, workspace, [&](std::size_t unit, Scratch& scratch) {
    const Views<T> views(shape, unit);
    const PackedOperand keys(views.keys(qkv).transposed(), scratch.keys_transposed);
    const PackedOperand values(views.values(qkv), scratch.values);
    for (std::size_t head = views.kv_head * group; head < (views.kv_head + 1) * group; ++head) {
      const Matrix<const T> queries = views.columns_of_qkv(qkv, head);
      const Matrix<T> result = views.head_of_out(out, head);
      float* sums = log_sum_exp + views.sums(head);
      for (std::size_t first = 0; first < shape.sequence; first += query_block) {
        const std::size_t count = std::min(query_block, shape.sequence - first);
        const std::size_t seen = first + count;  // keys that the last of these queries sees
        const Matrix<float> scores(scratch.scores, count, seen);
        multiply(scores, queries.row_range(first, count), keys);
        float inverse_sum[query_block];
        for (std::size_t i = 0; i < count; ++i) {
          const SoftmaxRow row = softmax.softmax(&scores.at(i, 0), first + i + 1, seen, scale);
          sums[first + i] = row.log_sum_exp;
          inverse_sum[i] = row.inverse_sum;
        }
        const Matrix<float> block(scratch.block, count, d);
        multiply(block, as_const(scores), values);
        for (std::size_t i = 0; i < count; ++i)
          rows.scale(&block.at(i, 0), inverse_sum[i], &result.at(first + i, 0), d);
        team.poll();
      }
    }
  });
}

template <class T>
void attention_backward(ThreadTeam& team, const AttentionShape& shape, const T* qkv, const T* out,
                        const float* log_sum_exp, const T* out_gradient, const float* cosine,
                        const float* sine, T* qkv_gradient, std::span<std::byte> workspace) {
  const auto& rows = row_kernels<T>();
  const auto& softmax = softmax_kernels();
  const std::size_t d = shape.head_dim;
  const std::size_t half = d / 2;
  const std::size_t group = shape.heads / shape.kv_heads;
  const float scale = 1.0f / std::sqrt(static_cast<float>(d));
  for_units(team, shape, workspace, [&](std::size_t unit, Scratch& scratch) {
    const Views<T> views(shape, unit);
    const PackedOperand keys(views.keys(qkv), scratch.keys);
    const PackedOperand keys_transposed(views.keys(qkv).transposed(), scratch.keys_transposed);
    const PackedOperand values_transposed(views.values(qkv).transposed(), scratch.values);
    const Matrix<float> key_gradient(scratch.key_gradient, shape.sequence, d);
    const Matrix<float> value_gradient(scratch.value_gradient, shape.sequence, d);
    std::fill_n(scratch.key_gradient, shape.sequence * d, 0.0f);
    std::fill_n(scratch.value_gradient, shape.sequence * d, 0.0f);
    for (std::size_t head = views.kv_head * group; head < (views.kv_head + 1) * group; ++head) {
      const Matrix<const T> queries = views.columns_of_qkv(qkv, head);
      const Matrix<const T> result = views.head_of_out(out, head);
      const Matrix<const T> result_gradient = views.head_of_out(out_gradient, head);
      const Matrix<T> query_gradient = views.columns_of_qkv(qkv_gradient, head);
      const float* sums = log_sum_exp + views.sums(head);
      for (std::size_t first = 0; first < shape.sequence; first += query_block) {
        const std::size_t count = std::min(query_block, shape.sequence - first);
        const std::size_t seen = first + count;
        const auto query_rows = queries.row_range(first, count);
        const auto gradient_rows = result_gradient.row_range(first, count);
        const Matrix<float> scores(scratch.scores, count, seen);
        const Matrix<float> score_gradients(scratch.score_gradients, count, seen);
        multiply(scores, query_rows, keys_transposed);
        multiply(score_gradients, gradient_rows, values_transposed);
        for (std::size_t i = 0; i < count; ++i) {
          const float delta = rows.dot(&result.at(first + i, 0), &result_gradient.at(first + i, 0), d);
          softmax.softmax_backward(&scores.at(i, 0), &score_gradients.at(i, 0), first + i + 1, seen, scale,
                                   sums[first + i], delta);
        }
        const Matrix<float> block(scratch.block, count, d);
        multiply(block, as_const(score_gradients), keys);
        for (std::size_t i = 0; i < count; ++i) {
          const std::size_t angles = (first + i) * half;
          rows.rotate_back(&block.at(i, 0), cosine + angles, sine + angles, &query_gradient.at(first + i, 0),
                           half);
        }
        const PackedOperand packed_queries(query_rows, scratch.queries);
        multiply_add(key_gradient.row_range(0, seen), as_const(score_gradients.transposed()), packed_queries);
        const PackedOperand packed_gradients(gradient_rows, scratch.queries);
        multiply_add(value_gradient.row_range(0, seen), as_const(scores.transposed()), packed_gradients);
        team.poll();
      }
    }
    const Matrix<T> keys_out = views.keys(qkv_gradient);
    const Matrix<T> values_out = views.values(qkv_gradient);
    for (std::size_t i = 0; i < shape.sequence; ++i) {
      rows.rotate_back(&key_gradient.at(i, 0), cosine + i * half, sine + i * half, &keys_out.at(i, 0), half);
      rows.scale(&value_gradient.at(i, 0), 1.0f, &values_out.at(i, 0), d);
    }
  });
}

template void attention_forward(ThreadTeam&, const AttentionShape&, const float*, float*, float*,
                                std::span<std::byte>);
template void attention_forward(ThreadTeam&, const AttentionShape&, const BFloat16*, BFloat16*, float*,
                                std::span<std::byte>);
template void attention_backward(ThreadTeam&, const AttentionShape&, const float*, const float*, const float*,
                                 const float*, const float*, const float*, float*, std::span<std::byte>);
template void attention_backward(ThreadTeam&, const AttentionShape&, const BFloat16*, const BFloat16*,
                                 const float*, const BFloat16*, const float*, const float*, BFloat16*,
                                 std::span<std::byte>);

}  // namespace weft::cpu
