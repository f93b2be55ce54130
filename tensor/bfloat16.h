#pragma once
// bfloat16: the upper half of a float. Stored as bits; every computation is done in float.
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft {

/// A bfloat16 number as its bits. It has no arithmetic: convert with `to_float` and `to_bfloat16`.
struct BFloat16 {
  std::uint16_t bits;  // no initial value: arrays of it cost nothing to make; BFloat16{} is zero

  friend bool operator==(BFloat16, BFloat16) = default;  // equal bits
};
static_assert(sizeof(BFloat16) == 2);

/// The same number as a float; exact.
[[nodiscard]] constexpr float to_float(BFloat16 value) noexcept {
  return std::bit_cast<float>(std::uint32_t{value.bits} << 16);
}

/// A float is its own conversion: templates over the storage type call `to_float` for both.
[[nodiscard]] constexpr float to_float(float value) noexcept { return value; }

/// The nearest bfloat16, ties to even; overflow gives infinity, a NaN stays a (quiet) NaN.
[[nodiscard]] constexpr BFloat16 to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fff'ffffu) > 0x7f80'0000u) return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// Converts a float to the storage type T (float or BFloat16).
template <class T>
[[nodiscard]] constexpr T from_float(float value) noexcept;
template <>
[[nodiscard]] constexpr float from_float<float>(float value) noexcept {
  return value;
}
template <>
[[nodiscard]] constexpr BFloat16 from_float<BFloat16>(float value) noexcept {
  return to_bfloat16(value);
}

}  // namespace weft
