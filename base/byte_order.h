#pragma once
// Little-endian loads and stores for wire and file formats; no alignment is assumed.
#include <bit>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <type_traits>

namespace weft {

static_assert(std::endian::native == std::endian::little, "weft runs on little-endian machines only");

/// Reads a little-endian integer or float at `from`; the caller has checked that sizeof(T) bytes are there.
template <class T>
requires std::is_trivially_copyable_v<T>
[[nodiscard]] T load_le(const std::byte* from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

/// Writes `value` as little-endian bytes at `to`.
template <class T>
requires std::is_trivially_copyable_v<T>
void store_le(std::byte* to, T value) noexcept { std::memcpy(to, &value, sizeof(T)); }

}  // namespace weft
