#pragma once
// Sixteen float lanes at every instruction-set level, for kernels that are compiled once per level.
//
// Only for the sources in this folder: everything has internal linkage, because each of them is compiled for
// another instruction set. A result does not depend on the level (but for the rounding of products inside
// `multiply_add`, which has two roundings at the baseline level), nor on the place of an element or the
// length of its row: the last, partial sixteen are computed as a full one.
#include <immintrin.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>

#include "weft/tensor/bfloat16.h"

namespace weft::cpu {
namespace {

#if defined(__AVX512F__)
constexpr int native_width = 16;
#elif defined(__AVX2__)
constexpr int native_width = 8;
#else
constexpr int native_width = 4;
#endif
constexpr std::size_t lane_count = 16;
constexpr int parts = static_cast<int>(lane_count) / native_width;

using NativeFloat [[gnu::vector_size(native_width * 4)]] = float;
using NativeInt [[gnu::vector_size(native_width * 4)]] = std::int32_t;
using NativeUnsigned [[gnu::vector_size(native_width * 4)]] = std::uint32_t;
using NativeShort [[gnu::vector_size(native_width * 2)]] = std::uint16_t;

/// Sixteen floats.
struct Lanes {
  NativeFloat part[parts];
};

template <class Function, std::size_t... I>
[[gnu::always_inline]] inline Lanes make_lanes(Function&& function, std::index_sequence<I...>) {
  return Lanes{{function(I)...}};
}
/// Lanes whose part i is function(i).
template <class Function>
[[gnu::always_inline]] inline Lanes make_lanes(Function&& function) {
  return make_lanes(function, std::make_index_sequence<parts>{});
}

[[gnu::always_inline]] inline Lanes all(float value) {
  return make_lanes([&](std::size_t) { return NativeFloat{} + value; });
}
[[gnu::always_inline]] inline Lanes operator+(const Lanes& a, const Lanes& b) {
  return make_lanes([&](std::size_t i) { return a.part[i] + b.part[i]; });
}
[[gnu::always_inline]] inline Lanes operator-(const Lanes& a, const Lanes& b) {
  return make_lanes([&](std::size_t i) { return a.part[i] - b.part[i]; });
}
[[gnu::always_inline]] inline Lanes operator*(const Lanes& a, const Lanes& b) {
  return make_lanes([&](std::size_t i) { return a.part[i] * b.part[i]; });
}
[[gnu::always_inline]] inline Lanes operator/(const Lanes& a, const Lanes& b) {
  return make_lanes([&](std::size_t i) { return a.part[i] / b.part[i]; });
}
[[gnu::always_inline]] inline NativeFloat native_larger(NativeFloat a, NativeFloat b) {
#if defined(__AVX512F__)
  return _mm512_mask_max_ps(a, 0xffff, a, b);
#elif defined(__AVX2__)
  return _mm256_max_ps(a, b);
#else
  return _mm_max_ps(a, b);
#endif
}
[[gnu::always_inline]] inline NativeFloat native_smaller(NativeFloat a, NativeFloat b) {
#if defined(__AVX512F__)
  return _mm512_mask_min_ps(a, 0xffff, a, b);
#elif defined(__AVX2__)
  return _mm256_min_ps(a, b);
#else
  return _mm_min_ps(a, b);
#endif
}
/// a if a > b, else b: b where either is not a number.
[[gnu::always_inline]] inline Lanes larger(const Lanes& a, const Lanes& b) {
  return make_lanes([&](std::size_t i) { return native_larger(a.part[i], b.part[i]); });
}
/// a if a < b, else b: b where either is not a number.
[[gnu::always_inline]] inline Lanes smaller(const Lanes& a, const Lanes& b) {
  return make_lanes([&](std::size_t i) { return native_smaller(a.part[i], b.part[i]); });
}

[[gnu::always_inline]] inline NativeFloat native_multiply_add(NativeFloat a, NativeFloat b, NativeFloat c) {
#if defined(__AVX512F__)
  return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
  return _mm256_fmadd_ps(a, b, c);
#else
  return a * b + c;
#endif
}
/// a * b + c, rounded once where the level has FMA.
[[gnu::always_inline]] inline Lanes multiply_add(const Lanes& a, const Lanes& b, const Lanes& c) {
  return make_lanes([&](std::size_t i) { return native_multiply_add(a.part[i], b.part[i], c.part[i]); });
}

[[gnu::always_inline]] inline NativeFloat native_sqrt(NativeFloat a) {
#if defined(__AVX512F__)
  return _mm512_mask_sqrt_ps(a, 0xffff, a);
#elif defined(__AVX2__)
  return _mm256_sqrt_ps(a);
#else
  return _mm_sqrt_ps(a);
#endif
}
[[gnu::always_inline]] inline Lanes square_root(const Lanes& a) {
  return make_lanes([&](std::size_t i) { return native_sqrt(a.part[i]); });
}

[[gnu::always_inline]] inline Lanes load(const float* from) {
  return make_lanes([&](std::size_t i) {
    NativeFloat part;
    std::memcpy(&part, from + i * native_width, sizeof part);
    return part;
  });
}
[[gnu::always_inline]] inline Lanes load(const BFloat16* from) {
  return make_lanes([&](std::size_t i) {
    NativeShort bits;
    std::memcpy(&bits, from + i * native_width, sizeof bits);
    const NativeUnsigned wide = __builtin_convertvector(bits, NativeUnsigned) << 16;
    return reinterpret_cast<NativeFloat>(wide);
  });
}
[[gnu::always_inline]] inline void store(float* to, const Lanes& lanes) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(parts); ++i)
    std::memcpy(to + i * native_width, &lanes.part[i], sizeof lanes.part[i]);
}
/// Rounds as to_bfloat16 does.
[[gnu::always_inline]] inline void store(BFloat16* to, const Lanes& lanes) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(parts); ++i) {
    const auto bits = reinterpret_cast<NativeUnsigned>(lanes.part[i]);
    const NativeUnsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    const NativeUnsigned quiet = (bits >> 16) | 0x40u;
    const NativeUnsigned chosen = lanes.part[i] == lanes.part[i] ? rounded : quiet;
    const NativeShort narrow = __builtin_convertvector(chosen, NativeShort);
    std::memcpy(static_cast<void*>(to + i * native_width), &narrow, sizeof narrow);
  }
}

/// The sum of the lanes, always by the same tree: lane i + lane i + 8, then + 4, + 2, + 1.
[[gnu::always_inline]] inline float sum(const Lanes& a) {
  float lane[lane_count];
  store(lane, a);
  for (std::size_t half = lane_count / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] += lane[i + half];
  return lane[0];
}
/// The largest lane; not a number counts for nothing unless it is all there is.
[[gnu::always_inline]] inline float largest(const Lanes& a) {
  float lane[lane_count];
  store(lane, a);
  for (std::size_t half = lane_count / 2; half > 0; half /= 2)
    for (std::size_t i = 0; i < half; ++i) lane[i] = lane[i + half] > lane[i] ? lane[i + half] : lane[i];
  return lane[0];
}

/// Sixteen elements of a row, from element `at` on.
struct FullLanes {
  std::size_t at;
  template <class T>
  [[gnu::always_inline]] Lanes load(const T* row, float = 0) const {
    return cpu::load(row + at);
  }
  template <class T>
  [[gnu::always_inline]] void store(T* row, const Lanes& lanes) const {
    cpu::store(row + at, lanes);
  }
  [[gnu::always_inline]] Lanes valid(const Lanes& lanes) const { return lanes; }
};

/// The last `count` < 16 elements of a row, from element `at` on.
struct PartialLanes {
  std::size_t at;
  std::size_t count;
  /// The lanes that are not there get the value `missing`.
  template <class T>
  [[gnu::always_inline]] Lanes load(const T* row, float missing = 0) const {
    T lane[lane_count];
    for (std::size_t i = 0; i < lane_count; ++i) lane[i] = from_float<T>(missing);
    std::memcpy(static_cast<void*>(lane), row + at, count * sizeof(T));
    return cpu::load(lane);
  }
  template <class T>
  [[gnu::always_inline]] void store(T* row, const Lanes& lanes) const {
    T lane[lane_count];
    cpu::store(lane, lanes);
    std::memcpy(static_cast<void*>(row + at), lane, count * sizeof(T));
  }
  /// Zero in the lanes that are not there: before they go into a sum.
  [[gnu::always_inline]] Lanes valid(const Lanes& lanes) const {
    float lane[lane_count];
    cpu::store(lane, lanes);
    for (std::size_t i = count; i < lane_count; ++i) lane[i] = 0;
    return cpu::load(lane);
  }
};

/// body(lanes) for all of a row's `count` elements, sixteen at a time; `body` takes FullLanes or
/// PartialLanes.
template <class Body>
[[gnu::always_inline]] inline void for_lanes(std::size_t count, Body&& body) {
  std::size_t i = 0;
  for (; i + lane_count <= count; i += lane_count) body(FullLanes{i});
  if (i < count) body(PartialLanes{i, count - i});
}

/// e^x with an error below 2 units in the last place; 0 below -87.3, and as for x = 88.3 above that.
/// Range reduction by ln 2 in two parts and a minimax polynomial (Cephes' expf).
[[gnu::always_inline]] inline Lanes exponential(const Lanes& x) {
  constexpr float smallest = -87.3f;
  constexpr float largest_argument = 88.3f;
  constexpr float round_to_integer = 12582912.0f;  // 1.5 * 2^23: the sum's low bits are the rounded integer
  const Lanes clipped = larger(all(smallest), smaller(all(largest_argument), x));
  const Lanes shifted = multiply_add(clipped, all(1.44269504f), all(round_to_integer));
  const Lanes n = shifted - all(round_to_integer);
  Lanes r = multiply_add(n, all(-0.693359375f), clipped);
  r = multiply_add(n, all(2.12194440e-4f), r);
  Lanes p = all(1.9875691e-4f);
  p = multiply_add(p, r, all(1.3981999e-3f));
  p = multiply_add(p, r, all(8.3334519e-3f));
  p = multiply_add(p, r, all(4.1665795e-2f));
  p = multiply_add(p, r, all(1.6666665e-1f));
  p = multiply_add(p, r, all(5.0000001e-1f));
  p = multiply_add(p, r * r, r) + all(1.0f);
  return make_lanes([&](std::size_t i) {
    const auto bits = reinterpret_cast<NativeInt>(shifted.part[i]);
    const auto power = reinterpret_cast<NativeFloat>((bits << 23) + 0x3f800000);
    const NativeFloat value = p.part[i] * power;
    return x.part[i] < smallest ? NativeFloat{} : value;
  });
}

}  // namespace
}  // namespace weft::cpu
