#pragma once
// Cuts one range of memory into aligned arrays. The same function lays out a slot at run time and, without
// memory, computes its size.
#include <cstddef>

#include "weft/tensor/arena.h"

namespace weft {

class Carver {
 public:
  /// Without memory: only counts.
  Carver() = default;
  explicit Carver(std::byte* memory) noexcept : memory_(memory) {}

  /// The next `count` elements, on a 64-byte border; null when there is no memory.
  template <class T>
  T* take(std::size_t count) noexcept {
    std::byte* range = memory_ == nullptr ? nullptr : memory_ + used_;
    used_ += aligned(count * sizeof(T));
    return reinterpret_cast<T*>(range);
  }
  /// Bytes taken so far.
  [[nodiscard]] std::size_t used() const noexcept { return used_; }

 private:
  std::byte* memory_ = nullptr;
  std::size_t used_ = 0;
};

}  // namespace weft
