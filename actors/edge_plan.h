#pragma once
// One border of the pipeline in one direction, as the plan sees it.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "weft/tensor/shape.h"
#include "weft/transport/message.h"

namespace weft {

struct EdgePlan {
  MessageKind kind = MessageKind::activation;  ///< activation (towards higher stages) or gradient
  std::uint16_t source_stage = 0;
  std::uint16_t target_stage = 0;
  std::uint32_t source_rank = 0;
  std::uint32_t target_rank = 0;
  std::uint32_t credits = 1;  ///< receive buffers for each tensor of the border
  ShapeList tensors;          ///< largest shapes

  [[nodiscard]] bool local() const noexcept { return source_rank == target_rank; }
  /// True when `shape` has the dimensions of tensor number `tensor` and exceeds none of them.
  [[nodiscard]] bool fits(std::size_t tensor, const Shape& shape) const noexcept {
    const Shape& largest = tensors[tensor].shape;
    if (shape.rank() != largest.rank()) return false;
    for (std::size_t i = 0; i < shape.rank(); ++i)
      if (shape[i] > largest[i]) return false;
    return true;
  }
  /// Bytes of a buffer for tensor number `tensor`; never 0, so that addresses tell buffers apart.
  [[nodiscard]] std::size_t block_bytes(std::size_t tensor) const {
    return std::max<std::size_t>(tensors[tensor].bytes(), 1);
  }
};

/// "activation" or "gradient".
[[nodiscard]] inline const char* edge_name(MessageKind kind) noexcept {
  return kind == MessageKind::activation ? "activation" : "gradient";
}

/// Finds what belongs to one edge by its kind and the stage at one of its ends, without a search.
template <class T>
class EdgeTable {
 public:
  void set(MessageKind kind, std::uint16_t stage, T* value) {
    auto& row = rows_[kind == MessageKind::activation ? 0 : 1];
    if (row.size() <= stage) row.resize(stage + 1u);
    row[stage] = value;
  }
  /// Null where there is none. `kind`: activation or gradient.
  [[nodiscard]] T* find(MessageKind kind, std::uint16_t stage) const noexcept {
    const auto& row = rows_[kind == MessageKind::activation ? 0 : 1];
    return stage < row.size() ? row[stage] : nullptr;
  }

 private:
  std::array<std::vector<T*>, 2> rows_;
};

}  // namespace weft
