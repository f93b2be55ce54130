#include "weft/model/ops/cpu/pack.h"

#include <emmintrin.h>

#include <algorithm>
#include <cstring>

namespace weft::cpu {
namespace {

// SSE2 is there on every x86-64, and copies are bound by memory: no wider version would pay.

__m128 load_four(const float* from) { return _mm_loadu_ps(from); }

__m128 load_four(const BFloat16* from) {
  const __m128i four = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), four));
}

/// Four rows of four, exchanged: to[column][row].
template <class T>
void transpose_four(const T* from, std::size_t from_stride, float* to, std::size_t to_stride) {
  __m128 row0 = load_four(from);
  __m128 row1 = load_four(from + from_stride);
  __m128 row2 = load_four(from + 2 * from_stride);
  __m128 row3 = load_four(from + 3 * from_stride);
  _MM_TRANSPOSE4_PS(row0, row1, row2, row3);
  _mm_storeu_ps(to, row0);
  _mm_storeu_ps(to + to_stride, row1);
  _mm_storeu_ps(to + 2 * to_stride, row2);
  _mm_storeu_ps(to + 3 * to_stride, row3);
}

/// Eight rows of eight, exchanged.
void transpose_eight(const BFloat16* from, std::size_t from_stride, BFloat16* to, std::size_t to_stride) {
  __m128i row[8];
  for (std::size_t i = 0; i < 8; ++i) {
    row[i] = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i * from_stride));
  }
  __m128i two[8];  // pairs of rows interleaved
  for (std::size_t i = 0; i < 4; ++i) {
    two[i] = _mm_unpacklo_epi16(row[2 * i], row[2 * i + 1]);
    two[i + 4] = _mm_unpackhi_epi16(row[2 * i], row[2 * i + 1]);
  }
  for (std::size_t half = 0; half < 2; ++half) {
    const __m128i* pair = two + 4 * half;
    const __m128i low01 = _mm_unpacklo_epi32(pair[0], pair[1]);
    const __m128i high01 = _mm_unpackhi_epi32(pair[0], pair[1]);
    const __m128i low23 = _mm_unpacklo_epi32(pair[2], pair[3]);
    const __m128i high23 = _mm_unpackhi_epi32(pair[2], pair[3]);
    const __m128i column[4] = {_mm_unpacklo_epi64(low01, low23), _mm_unpackhi_epi64(low01, low23),
                               _mm_unpacklo_epi64(high01, high23), _mm_unpackhi_epi64(high01, high23)};
    for (std::size_t i = 0; i < 4; ++i) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to + (4 * half + i) * to_stride), column[i]);
    }
  }
}

void convert(float from, float& to) { to = from; }
void convert(BFloat16 from, float& to) { to = to_float(from); }
void convert(BFloat16 from, BFloat16& to) { to = from; }

template <class From, class To>
void copy_elements(const Matrix<const From>& from, std::size_t first_row, std::size_t last_row,
                   std::size_t first_column, std::size_t last_column, To* to, std::size_t stride) {
  for (std::size_t row = first_row; row < last_row; ++row) {
    for (std::size_t column = first_column; column < last_column; ++column) {
      convert(from.at(row, column), to[row * stride + column]);
    }
  }
}

void copy_row(const float* from, std::size_t count, float* to) {
  std::memcpy(to, from, count * sizeof(float));
}

void copy_row(const BFloat16* from, std::size_t count, BFloat16* to) {
  std::memcpy(to, from, count * sizeof(BFloat16));
}

void copy_row(const BFloat16* from, std::size_t count, float* to) {
  std::size_t i = 0;
  for (; i + 4 <= count; i += 4) _mm_storeu_ps(to + i, load_four(from + i));
  for (; i < count; ++i) to[i] = to_float(from[i]);
}

template <class From>
void transpose_square(const From* from, std::size_t from_stride, float* to, std::size_t to_stride) {
  transpose_four(from, from_stride, to, to_stride);
}

void transpose_square(const BFloat16* from, std::size_t from_stride, BFloat16* to, std::size_t to_stride) {
  transpose_eight(from, from_stride, to, to_stride);
}

template <class From, class To>
void copy_any(const Matrix<const From>& from, To* to, std::size_t stride) {
  if (from.column_stride == 1) {
    for (std::size_t row = 0; row < from.rows; ++row) {
      copy_row(from.data + row * from.row_stride, from.columns, to + row * stride);
    }
  } else if (from.row_stride == 1) {
    constexpr std::size_t side = sizeof(To) == sizeof(float) ? 4 : 8;
    const std::size_t rows = from.rows / side * side;
    const std::size_t columns = from.columns / side * side;
    for (std::size_t column = 0; column < columns; column += side) {
      for (std::size_t row = 0; row < rows; row += side) {
        transpose_square(&from.at(row, column), from.column_stride, to + row * stride + column, stride);
      }
    }
    copy_elements(from, rows, from.rows, 0, columns, to, stride);
    copy_elements(from, 0, from.rows, columns, from.columns, to, stride);
  } else {
    copy_elements(from, 0, from.rows, 0, from.columns, to, stride);
  }
}

template <class From>
void pack_float_panel(const Matrix<const From>& b, std::size_t panel, float* packed) {
  const std::size_t width = kernel<float>().columns;
  const std::size_t first = panel * width;
  const std::size_t columns = std::min(width, b.columns - first);
  float* to = packed + panel * panel_elements<float>(b.rows);
  copy_rows(b.column_range(first, columns), to, width);
  for (std::size_t row = 0; row < b.rows && columns < width; ++row) {
    std::fill(to + row * width + columns, to + (row + 1) * width, 0.0f);
  }
}

/// The pairs (even[i], odd[i]) side by side.
void interleave(const BFloat16* even, const BFloat16* odd, std::size_t count, BFloat16* to) {
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i first = _mm_loadu_si128(reinterpret_cast<const __m128i*>(even + i));
    const __m128i second = _mm_loadu_si128(reinterpret_cast<const __m128i*>(odd + i));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i), _mm_unpacklo_epi16(first, second));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 2 * i + 8), _mm_unpackhi_epi16(first, second));
  }
  for (; i < count; ++i) {
    to[2 * i] = even[i];
    to[2 * i + 1] = odd[i];
  }
}

}  // namespace

void copy_rows(Matrix<const float> from, float* to, std::size_t stride) { copy_any(from, to, stride); }
void copy_rows(Matrix<const BFloat16> from, float* to, std::size_t stride) { copy_any(from, to, stride); }
void copy_rows(Matrix<const BFloat16> from, BFloat16* to, std::size_t stride) { copy_any(from, to, stride); }

void pack_panel(Matrix<const float> b, std::size_t panel, float* packed) {
  pack_float_panel(b, panel, packed);
}
void pack_panel(Matrix<const BFloat16> b, std::size_t panel, float* packed) {
  pack_float_panel(b, panel, packed);
}

void pack_panel(Matrix<const BFloat16> b, std::size_t panel, BFloat16* packed) {
  constexpr std::size_t width = 32;
  constexpr std::size_t step = 32;
  static_assert(sizeof(BFloat16) * width * 2 == 128);
  const std::size_t first = panel * width;
  const Matrix<const BFloat16> part = b.column_range(first, std::min(width, b.columns - first));
  BFloat16* to = packed + panel * panel_elements<BFloat16>(b.rows);
  BFloat16 rows[step * width];  // one round of the panel, zeros beyond the edges
  for (std::size_t k = 0; k < b.rows; k += step) {
    const std::size_t depth = std::min(step, b.rows - k);
    if (depth < step || part.columns < width) std::fill_n(rows, step * width, BFloat16{});
    copy_rows(part.row_range(k, depth), rows, width);
    for (std::size_t pair = 0; pair < step; pair += 2) {
      interleave(rows + pair * width, rows + (pair + 1) * width, width, to + (k + pair) * width);
    }
  }
}

}  // namespace weft::cpu
