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

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  all.fetch_add(1, std::memory_order_relaxed);
  ++mine;
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void* operator new(std::size_t bytes) {
  if (void* memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
