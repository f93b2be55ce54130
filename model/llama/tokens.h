#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace weft {

/// Throws Error, naming position and value, when a token is not in [0, vocabulary).
void check_tokens(std::span<const std::int32_t> tokens, std::size_t vocabulary, const char* what);

}  // namespace weft
