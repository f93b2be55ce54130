#pragma once
#include <cstdint>

namespace weft::test {

/// How often this thread has called operator new.
std::uint64_t allocations_of_this_thread() noexcept;

}  // namespace weft::test
