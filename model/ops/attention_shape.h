#pragma once
#include <cstddef>

namespace weft {

/// Sizes of one attention. A row of `qkv` is the queries [heads, head_dim], then the keys and the values
/// [kv_heads, head_dim] each; queries of head h use the keys of head h * kv_heads / heads.
struct AttentionShape {
  std::size_t batch = 0;
  std::size_t sequence = 0;
  std::size_t heads = 0;
  std::size_t kv_heads = 0;
  std::size_t head_dim = 0;

  [[nodiscard]] std::size_t rows() const noexcept { return batch * sequence; }
  [[nodiscard]] std::size_t out_columns() const noexcept { return heads * head_dim; }
  [[nodiscard]] std::size_t qkv_columns() const noexcept { return (heads + 2 * kv_heads) * head_dim; }
  /// Floats that the forward keeps: a largest score and an inverse sum per query and head.
  [[nodiscard]] std::size_t statistics() const noexcept { return 2 * rows() * heads; }
};

}  // namespace weft
