#pragma once
// The secret of one run. The launcher makes it and hands it to its children through an inherited descriptor;
// it never stands in a command line, an environment variable or a log.
#include <array>
#include <cstddef>

#include "weft/base/files/descriptor.h"

namespace weft {

inline constexpr std::size_t run_token_bytes = 32;
using RunToken = std::array<std::byte, run_token_bytes>;

/// 32 fresh bytes from the system's random source. Throws Error when there is none.
[[nodiscard]] RunToken make_run_token();

/// Puts `token` into an anonymous file in memory and returns its descriptor, close-on-exec. Throws Error when
/// the system refuses.
[[nodiscard]] Descriptor share_run_token(const RunToken& token);

/// Reads a token from `descriptor` without moving its position, so that it can be read again, and sets
/// close-on-exec so that no grandchild inherits it. Throws ConfigError when the descriptor does not hold a
/// token.
[[nodiscard]] RunToken read_run_token(int descriptor);

}  // namespace weft
