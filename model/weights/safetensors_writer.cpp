#include "weft/model/weights/safetensors_writer.h"

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"

namespace weft {
namespace {

std::vector<const StoredTensor*> in_file_order(std::span<const StoredTensor> tensors) {
  std::vector<const StoredTensor*> order;
  order.reserve(tensors.size());
  for (const auto& tensor : tensors) order.push_back(&tensor);
  // widest elements first: every tensor is then aligned, since the data begins at a multiple of 8
  std::sort(order.begin(), order.end(), [](const StoredTensor* a, const StoredTensor* b) {
    const std::size_t x = dtype_size(a->dtype);
    const std::size_t y = dtype_size(b->dtype);
    return x != y ? x > y : a->name < b->name;
  });
  return order;
}

void check(const StoredTensor& tensor, const std::string& file) {
  std::uint64_t bytes = dtype_size(tensor.dtype);
  bool fits = bytes != 0;
  for (const std::uint64_t dim : tensor.shape) fits = fits && !__builtin_mul_overflow(bytes, dim, &bytes);
  if (!fits || bytes != tensor.bytes.size())
    throw CheckpointError(file + ": tensor " + quoted_name(tensor.name) + " of " + tensor.describe() +
                          " has " + std::to_string(tensor.bytes.size()) + " bytes");
}

std::string header_text(std::span<const StoredTensor* const> order, const SafetensorsMetadata& metadata,
                        const std::string& file) {
  auto header = nlohmann::ordered_json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::uint64_t offset = 0;
  for (const auto* tensor : order) {
    check(*tensor, file);
    // an ordered_json looks names up from the start; pushing at the end keeps this linear
    header.get_ref<nlohmann::ordered_json::object_t&>().push_back(
        {tensor->name,
         {{"dtype", safetensors_type(tensor->dtype)},
          {"shape", tensor->shape},
          {"data_offsets", {offset, offset + tensor->bytes.size()}}}});
    offset += tensor->bytes.size();
  }
  std::string text;
  try {
    text = header.dump();
  } catch (const nlohmann::json::exception&) {
    throw CheckpointError(file + ": a name or metadata text is not valid UTF-8");
  }
  text.append((8 - text.size() % 8) % 8, ' ');
  if (text.size() > safetensors_header_limit)
    throw CheckpointError(file + ": the header would be longer than " +
                          std::to_string(safetensors_header_limit) + " bytes");
  return text;
}

void check_names(std::span<const StoredTensor> tensors, const std::string& file) {
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  if (twice != names.end())
    throw CheckpointError(file + ": tensor " + quoted_name(*twice) + " is given twice");
  if (std::binary_search(names.begin(), names.end(), "__metadata__"))
    throw CheckpointError(file + ": a tensor cannot be called __metadata__");
}

}  // namespace

FileRecord write_new_safetensors(const std::filesystem::path& path, std::span<const StoredTensor> tensors,
                                 const SafetensorsMetadata& metadata) {
  check_names(tensors, path.string());
  const auto order = in_file_order(tensors);
  const std::string header = header_text(order, metadata, path.string());
  std::array<std::byte, 8> length{};
  store_le(length.data(), std::uint64_t{header.size()});

  DurableFile file(path);
  file.write(length);
  file.write(header);
  for (const auto* tensor : order) file.write(tensor->bytes);
  return file.finish();
}

}  // namespace weft
