#pragma once
// Only for the sources in this folder, like tile_kernel.h.
#include <cstddef>

namespace weft::cpu {
namespace {

/// Asks for part number `part` of `parts` of the bytes at `begin` to be in the second-level cache soon.
inline void prefetch_part(const void* begin, std::size_t bytes, std::size_t part, std::size_t parts) {
  constexpr std::size_t line = 64;
  const std::size_t lines = bytes / line;
  for (std::size_t i = lines * part / parts; i < lines * (part + 1) / parts; ++i) {
    __builtin_prefetch(static_cast<const char*>(begin) + i * line, 0, 2);
  }
}

}  // namespace
}  // namespace weft::cpu
