#pragma once
// Element types of tensors, messages and weight files.
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

/// The numbers are part of the message header: append only.
enum class DType : std::uint8_t {
  none = 0,
  float32 = 1,
  bfloat16 = 2,
  float64 = 3,
  int32 = 4,
  uint8 = 5,
  float16 = 6,
  int64 = 7
};

/// Bytes of one element; 0 for `none` and for numbers that are no DType.
[[nodiscard]] constexpr std::size_t dtype_size(DType type) noexcept {
  switch (type) {
    case DType::none:
      return 0;
    case DType::uint8:
      return 1;
    case DType::bfloat16:
    case DType::float16:
      return 2;
    case DType::float32:
    case DType::int32:
      return 4;
    case DType::float64:
    case DType::int64:
      return 8;
  }
  return 0;
}

/// The name users write, `float32`, `bfloat16`, ...; `none` for anything else.
[[nodiscard]] constexpr std::string_view dtype_name(DType type) noexcept {
  switch (type) {
    case DType::none:
      return "none";
    case DType::float32:
      return "float32";
    case DType::bfloat16:
      return "bfloat16";
    case DType::float64:
      return "float64";
    case DType::int32:
      return "int32";
    case DType::uint8:
      return "uint8";
    case DType::float16:
      return "float16";
    case DType::int64:
      return "int64";
  }
  return "none";
}

}  // namespace weft
