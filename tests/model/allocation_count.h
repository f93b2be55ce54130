#pragma once
#include <cstdint>

namespace weft::test {

/// How often the threads of this program have called operator new.
std::uint64_t allocations() noexcept;

}  // namespace weft::test
