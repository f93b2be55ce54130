#pragma once
// A tensor is a shape and a type over a buffer. Tensors move; they are never copied behind your back.
#include <array>
#include <cstddef>
#include <utility>

#include "weft/base/error.h"
#include "weft/tensor/arena.h"
#include "weft/tensor/shape.h"

namespace weft {

/// Dense row-major values in a buffer that may be larger than they are.
class Tensor {
 public:
  Tensor() = default;
  /// Throws Error when the buffer is smaller than the shape.
  Tensor(Buffer buffer, DType dtype, const Shape& shape)
      : buffer_(std::move(buffer)), shape_(shape), dtype_(dtype) {
    if (bytes() > buffer_.size())
      throw Error("a tensor of shape " + shape.str() + " does not fit its buffer");
  }

  [[nodiscard]] DType dtype() const noexcept { return dtype_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] Device device() const noexcept { return buffer_.device(); }
  [[nodiscard]] std::size_t bytes() const { return buffer_ ? shape_.elements() * dtype_size(dtype_) : 0; }
  [[nodiscard]] std::byte* data() const noexcept { return buffer_.data(); }
  template <class T>
  [[nodiscard]] T* as() const noexcept {
    return reinterpret_cast<T*>(buffer_.data());
  }
  explicit operator bool() const noexcept { return static_cast<bool>(buffer_); }
  /// True when it lies in a block of `pool`.
  [[nodiscard]] bool belongs_to(const BlockPool& pool) const noexcept { return buffer_.belongs_to(pool); }
  /// Gives the memory back now.
  void release() noexcept { buffer_.release(); }

 private:
  Buffer buffer_;
  Shape shape_;
  DType dtype_ = DType::none;
};

/// The tensors that cross one border for one micro-batch, in fixed order; no allocation.
class TensorList {
 public:
  static constexpr std::size_t capacity = 8;

  TensorList() = default;
  explicit TensorList(Tensor tensor) { push_back(std::move(tensor)); }
  TensorList(TensorList&& other) noexcept
      : tensors_(std::move(other.tensors_)), size_(std::exchange(other.size_, 0)) {}
  TensorList& operator=(TensorList&& other) noexcept {
    tensors_ = std::move(other.tensors_);
    size_ = std::exchange(other.size_, 0);
    return *this;
  }

  /// Throws Error above `capacity`.
  void push_back(Tensor tensor) {
    if (size_ == capacity) throw Error("at most 8 tensors may cross a border");
    tensors_[size_++] = std::move(tensor);
  }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] Tensor& operator[](std::size_t i) noexcept { return tensors_[i]; }
  [[nodiscard]] const Tensor& operator[](std::size_t i) const noexcept { return tensors_[i]; }
  [[nodiscard]] Tensor* begin() noexcept { return tensors_.data(); }
  [[nodiscard]] Tensor* end() noexcept { return tensors_.data() + size_; }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t sum = 0;
    for (std::size_t i = 0; i < size_; ++i) sum += tensors_[i].bytes();
    return sum;
  }
  /// Gives all memory back now.
  void clear() noexcept {
    for (std::size_t i = 0; i < size_; ++i) tensors_[i].release();
    size_ = 0;
  }

 private:
  std::array<Tensor, capacity> tensors_;
  std::size_t size_ = 0;
};

}  // namespace weft
