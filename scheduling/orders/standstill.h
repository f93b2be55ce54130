#pragma once
// Ranks that wait for each other, put into words.
#include <cstdint>
#include <functional>
#include <string>

namespace weft {

/// What a rank that stands still waits for.
struct Wait {
  std::string cell;     ///< its next one
  std::string wanted;   ///< the one that has to come before
  std::uint32_t owner;  ///< the rank whose row holds `wanted`
};

/// The ranks that wait for each other, found from `rank` on (which stands still, as do all that it waits
/// for): one line each, "A waits for B, which stands behind", until the first comes again. Starts with a line
/// end.
[[nodiscard]] std::string describe_standstill(std::uint32_t rank,
                                              const std::function<Wait(std::uint32_t)>& wait_of);

}  // namespace weft
