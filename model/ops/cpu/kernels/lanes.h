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
[[gnu::always_inline]] inline NativeFloat load_native(const BFloat16* from) {
#if defined(__AVX512F__)
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
  return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xffff, _mm512_maskz_cvtepu16_epi32(0xffff, bits), 16));
#elif defined(__AVX2__)
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
#else
  const __m128i bits = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
  return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), bits));
#endif
}
[[gnu::always_inline]] inline Lanes load(const BFloat16* from) {
  return make_lanes([&](std::size_t i) { return load_native(from + i * native_width); });
}
[[gnu::always_inline]] inline void store(float* to, const Lanes& lanes) {
  for (std::size_t i = 0; i < static_cast<std::size_t>(parts); ++i)
    std::memcpy(to + i * native_width, &lanes.part[i], sizeof lanes.part[i]);
}
/// The bits of to_bfloat16 in the upper half of each lane.
[[gnu::always_inline]] inline NativeInt rounded_to_bfloat16(NativeFloat value) {
  const auto bits = reinterpret_cast<NativeUnsigned>(value);
  const NativeUnsigned rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
  const NativeUnsigned quiet = bits | 0x400000u;
  return reinterpret_cast<NativeInt>((value == value ? rounded : quiet));
}
/// Rounds as to_bfloat16 does.
[[gnu::always_inline]] inline void store(BFloat16* to, const Lanes& lanes) {
  NativeInt bits[parts];
  for (std::size_t i = 0; i < static_cast<std::size_t>(parts); ++i)
    bits[i] = rounded_to_bfloat16(lanes.part[i]) >> 16;  // keeps the sign, so that packing saturates nothing
#if defined(__AVX512F__)
  const __m256i packed = _mm512_maskz_cvtepi32_epi16(0xffff, (__m512i)bits[0]);
  std::memcpy(static_cast<void*>(to), &packed, sizeof packed);
#elif defined(__AVX2__)
  const __m256i halves = _mm256_packs_epi32((__m256i)bits[0], (__m256i)bits[1]);
  const __m256i packed = _mm256_permute4x64_epi64(halves, 0xd8);
  std::memcpy(static_cast<void*>(to), &packed, sizeof packed);
#else
  const __m128i packed[2] = {_mm_packs_epi32((__m128i)bits[0], (__m128i)bits[1]),
                             _mm_packs_epi32((__m128i)bits[2], (__m128i)bits[3])};
  std::memcpy(static_cast<void*>(to), packed, sizeof packed);
#endif
}

/// Sixteen lanes to one, always by the same tree: lane i with lane i + 8, then + 4, + 2, + 1.
template <class Combine>
[[gnu::always_inline]] inline float fold(const Lanes& a, Combine combine) {
#if defined(__AVX512F__)
  __m256 half[2];
  std::memcpy(half, &a.part[0], sizeof half);
  const __m256 eight = combine(half[0], half[1]);
  const __m128 four = combine(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#elif defined(__AVX2__)
  const __m256 eight = combine(a.part[0], a.part[1]);
  const __m128 four = combine(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
#else
  const __m128 four = combine(combine(a.part[0], a.part[2]), combine(a.part[1], a.part[3]));
#endif
  const __m128 two = combine(four, _mm_movehl_ps(four, four));
  return combine(two, _mm_shuffle_ps(two, two, 1))[0];
}
[[gnu::always_inline]] inline float sum(const Lanes& a) {
  return fold(a, [](auto x, auto y) { return x + y; });
}
/// Where lanes are not a number the result is any of the others, or not a number.
[[gnu::always_inline]] inline float largest(const Lanes& a) {
  return fold(a, [](auto x, auto y) { return x > y ? x : y; });
}

/// Copies less than 64 bytes without a call.
[[gnu::always_inline]] inline void copy_few(void* to, const void* from, std::size_t bytes) {
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  const auto piece = [&]<std::size_t size>() {
    if ((bytes & size) == 0) return;
    std::memcpy(target, source, size);
    target += size;
    source += size;
  };
  piece.template operator()<32>();
  piece.template operator()<16>();
  piece.template operator()<8>();
  piece.template operator()<4>();
  piece.template operator()<2>();
}

// Sixteen set lanes, sixteen that are not, sixteen set ones: read from 16 - n on for the first n lanes, from
// 32 - n on for all but the first n.
alignas(64) constexpr std::int32_t lane_masks[3 * lane_count] = {
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,  //
    0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,   //
    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

/// `lanes`, but `other` in the first `count` <= 16 of them.
[[gnu::always_inline]] inline Lanes replace_first(const Lanes& lanes, std::size_t count, float other) {
  return make_lanes([&](std::size_t i) {
    NativeInt set;
    std::memcpy(&set, lane_masks + 2 * lane_count - count + i * native_width, sizeof set);
    return set ? lanes.part[i] : NativeFloat{} + other;
  });
}

/// Sixteen elements of a row, from element `at` on.
struct FullLanes {
  std::size_t at;
  template <class T>
  [[gnu::always_inline]] Lanes load(const T* row) const {
    return cpu::load(row + at);
  }
  [[gnu::always_inline]] Lanes load(const float* row, float) const { return cpu::load(row + at); }
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

  /// The lanes that are not there are zero.
  [[gnu::always_inline]] Lanes load(const float* row) const {
#if defined(__AVX512F__)
    return Lanes{{_mm512_maskz_loadu_ps(present(), row + at)}};
#elif defined(__AVX2__)
    return make_lanes(
        [&](std::size_t i) { return _mm256_maskload_ps(row + at + i * native_width, (__m256i)mask(i)); });
#else
    float lane[lane_count] = {};
    copy_few(lane, row + at, count * sizeof(float));
    return cpu::load(lane);
#endif
  }
  [[gnu::always_inline]] Lanes load(const BFloat16* row) const {
    BFloat16 lane[lane_count] = {};
    copy_few(lane, row + at, count * sizeof(BFloat16));
    return cpu::load(lane);
  }
  /// The lanes that are not there have the value `missing`.
  [[gnu::always_inline]] Lanes load(const float* row, float missing) const {
    const Lanes loaded = load(row);
    return make_lanes([&](std::size_t i) { return mask(i) ? loaded.part[i] : NativeFloat{} + missing; });
  }
  [[gnu::always_inline]] void store(float* row, const Lanes& lanes) const {
#if defined(__AVX512F__)
    _mm512_mask_storeu_ps(row + at, present(), lanes.part[0]);
#elif defined(__AVX2__)
    for (std::size_t i = 0; i < static_cast<std::size_t>(parts); ++i)
      _mm256_maskstore_ps(row + at + i * native_width, (__m256i)mask(i), lanes.part[i]);
#else
    float lane[lane_count];
    cpu::store(lane, lanes);
    copy_few(row + at, lane, count * sizeof(float));
#endif
  }
  [[gnu::always_inline]] void store(BFloat16* row, const Lanes& lanes) const {
    BFloat16 lane[lane_count];
    cpu::store(lane, lanes);
    copy_few(row + at, lane, count * sizeof(BFloat16));
  }
  /// Zero in the lanes that are not there: before they go into a sum.
  [[gnu::always_inline]] Lanes valid(const Lanes& lanes) const {
    return make_lanes([&](std::size_t i) { return mask(i) ? lanes.part[i] : NativeFloat{}; });
  }

 private:
  [[gnu::always_inline]] NativeInt mask(std::size_t part) const {
    NativeInt set;
    std::memcpy(&set, lane_masks + lane_count - count + part * native_width, sizeof set);
    return set;
  }
#if defined(__AVX512F__)
  [[gnu::always_inline]] __mmask16 present() const { return static_cast<__mmask16>((1u << count) - 1); }
#endif
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
