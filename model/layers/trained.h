#pragma once
// One or several parameters in one piece of memory: values, float gradients and, for bfloat16, float masters.
#include <cstddef>
#include <string>
#include <type_traits>

#include "weft/actors/stage.h"
#include "weft/model/state_carver.h"
#include "weft/tensor/bfloat16.h"
#include "weft/tensor/carver.h"

namespace weft {

template <class T>
inline constexpr DType dtype_of = DType::none;
template <>
inline constexpr DType dtype_of<float> = DType::float32;
template <>
inline constexpr DType dtype_of<BFloat16> = DType::bfloat16;

template <class T>
struct Trained {
  T* value = nullptr;
  float* gradient = nullptr;
  float* master = nullptr;  // null for float

  void lay_out(StateCarver& carve, std::size_t count) {
    value = carve.rest.take<T>(count);
    gradient = carve.gradients.take<float>(count);
    if constexpr (!std::is_same_v<T, float>) master = carve.rest.take<float>(count);
  }

  /// The parameter whose elements begin at `first`.
  [[nodiscard]] Parameter parameter(std::string name, const Shape& shape, std::size_t first = 0) const {
    Parameter made;
    made.name = std::move(name);
    made.dtype = dtype_of<T>;
    made.shape = shape;
    if (value == nullptr) return made;  // planned, not yet allocated
    made.value = reinterpret_cast<std::byte*>(value + first);
    made.gradient = gradient + first;
    made.master = master == nullptr ? nullptr : master + first;
    return made;
  }
};

}  // namespace weft
