#include "weft/model/weights/weights_hash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/sha256.h"
#include "weft/model/weights/safetensors.h"
#include "weft/tensor/host_values.h"

namespace weft {

std::string weights_hash_line(std::string_view name, DType dtype, std::span<const std::uint64_t> shape,
                              std::span<const std::byte> bytes) {
  std::uint64_t expected = dtype_size(dtype);
  for (const std::uint64_t dim : shape) expected *= dim;
  if (expected != bytes.size())
    throw Error(fmt::format("the weights hash of {} was given {} bytes, its shape takes {}", name,
                            bytes.size(), expected));
  return fmt::format("{} {} [{}] {}", name, safetensors_type(dtype), fmt::join(shape, ","),
                     sha256_hex(bytes));
}

std::vector<std::string> weights_hash_lines(std::span<Parameter* const> parameters) {
  std::vector<std::string> lines;
  lines.reserve(parameters.size());
  for (const Parameter* parameter : parameters) {
    if (!parameter->tied_to.empty()) continue;
    const auto dims = parameter->shape.dims();
    const std::vector<std::uint64_t> shape(dims.begin(), dims.end());
    const HostValues values = HostValues::read(parameter->queue, parameter->value_bytes());
    lines.push_back(weights_hash_line(parameter->name, parameter->dtype, shape, values.bytes()));
  }
  return lines;
}

std::string weights_sha256(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  Sha256 hash;
  std::string_view last;
  for (const std::string& line : lines) {
    const auto name = std::string_view(line).substr(0, line.find(' '));
    if (name == last && &line != &lines.front())
      throw Error("the weights hash was given " + std::string(name) + " twice");
    last = name;
    hash.update(line);
    hash.update("\n");
  }
  return hash.hex();
}

}  // namespace weft
