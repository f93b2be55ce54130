#pragma once
// Counts calls of operator new in test programs that link it.
#include <cstdint>

namespace weft::test {

/// By all threads of this program.
std::uint64_t allocations() noexcept;
/// By the calling thread.
std::uint64_t allocations_of_this_thread() noexcept;

}  // namespace weft::test
