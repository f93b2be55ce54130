#include "weft/tests/support/allocation_count.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<std::uint64_t> all{0};
thread_local std::uint64_t mine = 0;
}  // namespace

std::uint64_t weft::test::allocations() noexcept { return all.load(); }
std::uint64_t weft::test::allocations_of_this_thread() noexcept { return mine; }

void* operator new(std::size_t bytes) {
  all.fetch_add(1, std::memory_order_relaxed);
  ++mine;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
