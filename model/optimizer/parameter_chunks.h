#pragma once
#include <algorithm>
#include <cstddef>
#include <type_traits>

#include "weft/actors/stage.h"
#include "weft/base/error.h"
#include "weft/model/ops/cpu/thread_team.h"
#include "weft/tensor/bfloat16.h"

namespace weft {

/// function(value, master, gradient, first element, count) for chunks of one parameter, on the team's
/// threads; `value` is a float* or a BFloat16*, `master` null when the value is its own. Throws Error for
/// other types.
template <class Function>
void for_chunks(cpu::ThreadTeam& team, const Parameter& parameter, Function&& function) {
  constexpr std::size_t chunk = 16384;
  const std::size_t n = parameter.shape.elements();
  const auto run = [&](auto* value) {
    team.parallel_for((n + chunk - 1) / chunk, [&](std::size_t block) {
      const std::size_t at = block * chunk;
      function(value + at, parameter.master == nullptr ? nullptr : parameter.master + at,
               parameter.gradient + at, at, std::min(chunk, n - at));
    });
  };
  if (parameter.dtype == DType::float32) return run(reinterpret_cast<float*>(parameter.value));
  if (parameter.dtype == DType::bfloat16) return run(reinterpret_cast<BFloat16*>(parameter.value));
  throw Error("parameter " + parameter.name + " is neither float32 nor bfloat16");
}

}  // namespace weft
