#include "weft/actors/task.h"

#include <array>
#include <new>
#include <vector>

namespace weft::detail {
namespace {

// Sizes are rounded to 64 bytes; larger frames than these classes go to the heap.
constexpr std::size_t grain = 64;
constexpr std::size_t classes = 128;

struct FramePool {
  std::array<std::vector<void*>, classes> free;
  ~FramePool() {
    for (auto& list : free)
      for (void* frame : list) ::operator delete(frame);
  }
};
thread_local FramePool pool;

}  // namespace

void* allocate_frame(std::size_t bytes) {
  const std::size_t size_class = (bytes + grain - 1) / grain;
  if (size_class >= classes) return ::operator new(bytes);
  auto& list = pool.free[size_class];
  if (list.empty()) return ::operator new(size_class* grain);
  void* frame = list.back();
  list.pop_back();
  return frame;
}

void free_frame(void* frame, std::size_t bytes) noexcept {
  const std::size_t size_class = (bytes + grain - 1) / grain;
  if (size_class >= classes) {
    ::operator delete(frame);
    return;
  }
  try {
    pool.free[size_class].push_back(frame);
  } catch (const std::bad_alloc&) {
    ::operator delete(frame);
  }
}

}  // namespace weft::detail
