#pragma once
#include <cstddef>

#include "weft/tensor/carver.h"

namespace weft {

/// Cuts a stage's state: the gradients lie in one range at its front, all else behind it.
struct StateCarver {
  Carver gradients;
  Carver rest;

  /// Without memory: only counts.
  StateCarver() = default;
  /// Memory for what `counted` has counted.
  StateCarver(std::byte* memory, const StateCarver& counted) noexcept
      : gradients(memory), rest(memory + counted.gradients.used()) {}
  [[nodiscard]] std::size_t used() const noexcept { return gradients.used() + rest.used(); }
};

}  // namespace weft
