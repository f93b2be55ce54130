#pragma once
// Matrices for tests: aligned, filled from a seed, with gaps that nothing may touch.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "weft/model/ops/cpu/matrix.h"
#include "weft/tensor/bfloat16.h"

namespace weft::test {

/// `count` elements on a 64-byte border.
template <class T>
class Memory {
 public:
  explicit Memory(std::size_t count) : elements_(count + 64 / sizeof(T)), count_(count) {}
  Memory(const Memory& other) : Memory(other.count_) {
    std::copy(other.data(), other.data() + count_, data());
  }
  Memory& operator=(const Memory&) = delete;
  [[nodiscard]] T* data() { return elements_.data() + padding(); }
  [[nodiscard]] const T* data() const { return elements_.data() + padding(); }
  [[nodiscard]] std::span<T> span() { return {data(), count_}; }

 private:
  [[nodiscard]] std::size_t padding() const {
    return (64 - reinterpret_cast<std::uintptr_t>(elements_.data()) % 64) % 64 / sizeof(T);
  }
  std::vector<T> elements_;
  std::size_t count_;
};

inline constexpr std::size_t gap = 3;  // elements between rows, which nothing may touch

/// A matrix with a gap of NaN behind every row.
template <class T>
class Values {
 public:
  Values(std::size_t rows, std::size_t columns, std::uint32_t seed = 0)
      : memory_(rows * (columns + gap)), rows_(rows), columns_(columns) {
    for (T& element : memory_.span()) element = from_float<T>(std::numeric_limits<float>::quiet_NaN());
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column) {
        seed = seed * 1664525u + 1013904223u;
        view().at(row, column) = from_float<T>(static_cast<float>(seed >> 8) / (1u << 24) - 0.5f);
      }
    }
  }
  [[nodiscard]] cpu::Matrix<T> view() { return {memory_.data(), rows_, columns_, columns_ + gap}; }
  [[nodiscard]] cpu::Matrix<const T> input() { return view(); }

  /// The bits of all elements; checks that the gaps are as they were.
  [[nodiscard]] std::vector<std::uint32_t> bits() {
    std::vector<std::uint32_t> result;
    for (std::size_t row = 0; row < rows_; ++row) {
      for (std::size_t column = 0; column < columns_; ++column) {
        result.push_back(std::bit_cast<std::uint32_t>(to_float(view().at(row, column))));
      }
      for (std::size_t i = 0; i < gap; ++i) EXPECT_TRUE(std::isnan(to_float(view().at(row, columns_ + i))));
    }
    return result;
  }

 private:
  Memory<T> memory_;
  std::size_t rows_, columns_;
};

}  // namespace weft::test
