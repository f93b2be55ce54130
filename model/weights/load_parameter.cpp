#include "weft/model/weights/load_parameter.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"
#include "weft/tensor/bfloat16.h"
#include "weft/tensor/host_values.h"

namespace weft {
namespace {

/// IEEE binary16 to float; exact.
float half_to_float(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t{bits & 0x8000u} << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu;
  const std::uint32_t fraction = bits & 0x3ffu;
  if (exponent == 0x1f) return std::bit_cast<float>(sign | 0x7f80'0000u | fraction << 13);
  if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | fraction << 13);
  const float subnormal = static_cast<float>(fraction) * 0x1p-24f;
  return sign != 0 ? -subnormal : subnormal;
}

float number(const std::byte* from, DType dtype, std::size_t i) {
  if (dtype == DType::float32) return load_le<float>(from + 4 * i);
  const auto bits = load_le<std::uint16_t>(from + 2 * i);
  return dtype == DType::bfloat16 ? to_float(BFloat16{bits}) : half_to_float(bits);
}

[[noreturn]] void refuse(const StoredTensor& stored, const std::string& file, const std::string& wanted) {
  throw CheckpointError(fmt::format("{}: {} is {}, the model's is {}", file, quoted_name(stored.name),
                                    stored.describe(), wanted));
}

void require_shape(const Shape& shape, const StoredTensor& stored, const std::string& file) {
  if (!stored.has_shape(shape)) refuse(stored, file, shape.str());
}

}  // namespace

bool holds_floats(const StoredTensor& stored) noexcept {
  return stored.dtype == DType::float32 || stored.dtype == DType::bfloat16 || stored.dtype == DType::float16;
}

float stored_number(const StoredTensor& stored, std::size_t i) {
  return number(stored.bytes.data(), stored.dtype, i);
}

void load_parameter(const Parameter& parameter, const StoredTensor& stored, const std::string& file) {
  require_shape(parameter.shape, stored, file);
  if (!holds_floats(stored)) refuse(stored, file, "F32, BF16 or F16");
  if (parameter.dtype != stored.dtype && parameter.dtype != DType::float32 &&
      parameter.dtype != DType::bfloat16)
    refuse(stored, file, std::string(dtype_name(parameter.dtype)));
  const std::size_t count = parameter.shape.elements();
  HostValues masters = HostValues::overwrite(parameter.queue, parameter.master_bytes());
  HostValues values = HostValues::overwrite(parameter.queue, parameter.value_bytes());
  std::byte* const to = values.bytes().data();
  if (parameter.master != nullptr)
    for (std::size_t i = 0; i < count; ++i) masters.as<float>()[i] = stored_number(stored, i);
  if (stored.dtype == parameter.dtype) {
    if (count != 0) std::memcpy(to, stored.bytes.data(), stored.bytes.size());
  } else if (parameter.dtype == DType::float32) {
    for (std::size_t i = 0; i < count; ++i) store_le(to + 4 * i, stored_number(stored, i));
  } else {
    for (std::size_t i = 0; i < count; ++i) store_le(to + 2 * i, to_bfloat16(stored_number(stored, i)).bits);
  }
  masters.store();
  values.store();
}

void load_exactly(DType dtype, const Shape& shape, Queue* queue, std::span<std::byte> to,
                  const StoredTensor& stored, const std::string& file) {
  require_shape(shape, stored, file);
  if (stored.dtype != dtype) refuse(stored, file, std::string(safetensors_type(dtype)));
  HostValues values = HostValues::overwrite(queue, to);
  if (!stored.bytes.empty()) std::memcpy(values.bytes().data(), stored.bytes.data(), stored.bytes.size());
  values.store();
}

std::string name_list(std::span<const std::string> names) {
  constexpr std::size_t shown = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), shown); ++i) {
    if (i > 0) text.append(", ");
    text.append(quoted_name(names[i]));
  }
  if (names.size() > shown) text.append(fmt::format(" and {} more", names.size() - shown));
  return text;
}

void require_same_names(std::vector<std::string> wanted, std::vector<std::string> present,
                        const std::string& where) {
  std::sort(wanted.begin(), wanted.end());
  std::sort(present.begin(), present.end());
  std::vector<std::string> missing;
  std::vector<std::string> unexpected;
  std::set_difference(wanted.begin(), wanted.end(), present.begin(), present.end(),
                      std::back_inserter(missing));
  std::set_difference(present.begin(), present.end(), wanted.begin(), wanted.end(),
                      std::back_inserter(unexpected));
  if (missing.empty() && unexpected.empty()) return;
  std::string text = where + ":";
  if (!missing.empty()) text.append(" missing: ").append(name_list(missing));
  if (!unexpected.empty())
    text.append(missing.empty() ? " " : "; ").append("unexpected: ").append(name_list(unexpected));
  throw CheckpointError(text);
}

}  // namespace weft
