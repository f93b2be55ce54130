#pragma once
// Shapes of up to six dimensions, and the shape list that a stage declares for what crosses its borders.
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "weft/base/error.h"
#include "weft/tensor/dtype.h"

namespace weft {

/// Row-major dimensions, outermost first. A shape without dimensions is a scalar (one element).
class Shape {
 public:
  static constexpr std::size_t max_dims = 6;

  Shape() = default;
  Shape(std::initializer_list<std::uint32_t> dims) : Shape(std::span(dims.begin(), dims.size())) {}
  /// Throws Error above six dimensions.
  explicit Shape(std::span<const std::uint32_t> dims) {
    if (dims.size() > max_dims) throw Error("a tensor has at most 6 dimensions");
    count_ = static_cast<std::uint8_t>(dims.size());
    for (std::size_t i = 0; i < dims.size(); ++i) dims_[i] = dims[i];
  }

  [[nodiscard]] std::size_t rank() const noexcept { return count_; }
  [[nodiscard]] std::uint32_t operator[](std::size_t i) const noexcept { return dims_[i]; }
  [[nodiscard]] std::span<const std::uint32_t> dims() const noexcept { return {dims_.data(), count_}; }
  /// Number of elements; throws Error when it does not fit 63 bits.
  [[nodiscard]] std::uint64_t elements() const {
    std::uint64_t n = 1;
    for (const std::uint32_t d : dims())
      if (__builtin_mul_overflow(n, static_cast<std::uint64_t>(d), &n) || n >> 63 != 0)
        throw Error("tensor too large");
    return n;
  }
  [[nodiscard]] std::string str() const {
    std::string text = "[";
    for (std::size_t i = 0; i < rank(); ++i) text += (i ? ", " : "") + std::to_string(dims_[i]);
    return text + "]";
  }

  friend bool operator==(const Shape& a, const Shape& b) noexcept {
    return a.count_ == b.count_ && a.dims_ == b.dims_;
  }

 private:
  std::array<std::uint32_t, max_dims> dims_{};
  std::uint8_t count_ = 0;
};

/// One tensor of a border: its type, its largest shape, and whether a gradient comes back for it.
struct TensorSpec {
  DType dtype = DType::float32;
  Shape shape;
  bool differentiable = true;

  [[nodiscard]] std::uint64_t bytes() const { return shape.elements() * dtype_size(dtype); }
};

/// What crosses a border for one micro-batch, at most TensorList::capacity tensors.
using ShapeList = std::vector<TensorSpec>;

}  // namespace weft
