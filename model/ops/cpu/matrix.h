#pragma once
// A view of a matrix in memory that someone else owns.
#include <cstddef>
#include <type_traits>

namespace weft::cpu {

/// Element (r, c) lies at data[r * row_stride + c * column_stride]; strides in elements.
template <class T>
struct Matrix {
  T* data = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  std::size_t row_stride = 0;
  std::size_t column_stride = 1;

  Matrix() = default;
  /// Rows without a gap between them.
  Matrix(T* data_, std::size_t rows_, std::size_t columns_)
      : data(data_), rows(rows_), columns(columns_), row_stride(columns_) {}
  /// Rows `row_stride_` elements apart: one head of [sequence, heads * head_dim], for example.
  Matrix(T* data_, std::size_t rows_, std::size_t columns_, std::size_t row_stride_)
      : data(data_), rows(rows_), columns(columns_), row_stride(row_stride_) {}

  operator Matrix<const T>() const requires(!std::is_const_v<T>) {
    Matrix<const T> same(data, rows, columns, row_stride);
    same.column_stride = column_stride;
    return same;
  }

  [[nodiscard]] T& at(std::size_t row, std::size_t column) const {
    return data[row * row_stride + column * column_stride];
  }

  /// Rows [first, first + count).
  [[nodiscard]] Matrix row_range(std::size_t first, std::size_t count) const {
    Matrix part = *this;
    part.data += first * row_stride;
    part.rows = count;
    return part;
  }

  /// Columns [first, first + count).
  [[nodiscard]] Matrix column_range(std::size_t first, std::size_t count) const {
    Matrix part = *this;
    part.data += first * column_stride;
    part.columns = count;
    return part;
  }

  /// The same memory with rows and columns exchanged.
  [[nodiscard]] Matrix transposed() const {
    Matrix other = *this;
    other.rows = columns;
    other.columns = rows;
    other.row_stride = column_stride;
    other.column_stride = row_stride;
    return other;
  }
};

}  // namespace weft::cpu
