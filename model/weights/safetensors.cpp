#include "weft/model/weights/safetensors.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"
#include "weft/model/weights/foreign_file.h"
#include "weft/model/weights/safetensors_header.h"

namespace weft {
namespace {

struct TypeRow {
  std::string_view name;
  unsigned bits;
  DType dtype;
};
constexpr std::array<TypeRow, 22> types{
    {{"BOOL", 8, DType::none},        {"F4", 4, DType::none},          {"F6_E2M3", 6, DType::none},
     {"F6_E3M2", 6, DType::none},     {"U8", 8, DType::uint8},         {"I8", 8, DType::none},
     {"F8_E5M2", 8, DType::none},     {"F8_E4M3", 8, DType::none},     {"F8_E8M0", 8, DType::none},
     {"F8_E4M3FNUZ", 8, DType::none}, {"F8_E5M2FNUZ", 8, DType::none}, {"I16", 16, DType::none},
     {"U16", 16, DType::none},        {"F16", 16, DType::float16},     {"BF16", 16, DType::bfloat16},
     {"I32", 32, DType::int32},       {"U32", 32, DType::none},        {"F32", 32, DType::float32},
     {"C64", 64, DType::none},        {"F64", 64, DType::float64},     {"I64", 64, DType::int64},
     {"U64", 64, DType::none}}};

[[noreturn]] void fail(const std::string& file, const std::string& what) {
  throw CheckpointError(file + ": " + what);
}

/// Bytes of a tensor of this shape; false when they do not fit 64 bits or are no whole number.
bool tensor_bytes(std::span<const std::uint64_t> shape, unsigned bits, std::uint64_t& bytes) {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : shape)
    if (__builtin_mul_overflow(count, dim, &count)) return false;
  if (__builtin_mul_overflow(count, std::uint64_t{bits}, &count) || count % 8 != 0) return false;
  bytes = count / 8;
  return true;
}

StoredTensor checked_tensor(SafetensorsEntry& entry, std::span<const std::byte> data,
                            const std::string& file) {
  const auto* row =
      std::find_if(types.begin(), types.end(), [&](const TypeRow& t) { return t.name == entry.type; });
  const std::string tensor = "tensor " + quoted_name(entry.name);
  if (row == types.end()) fail(file, tensor + " has the unknown dtype " + quoted_name(entry.type));
  StoredTensor result{std::move(entry.name), row->name, row->dtype, std::move(entry.shape), {}};
  std::uint64_t bytes = 0;
  if (!tensor_bytes(result.shape, row->bits, bytes))
    fail(file, tensor + ": the size of " + result.describe() + " overflows or is no whole number of bytes");
  if (entry.end - entry.begin != bytes)
    fail(file, tensor + " has " + std::to_string(entry.end - entry.begin) + " bytes, but " +
                   result.describe() + " takes " + std::to_string(bytes));
  result.bytes = data.subspan(entry.begin, bytes);
  return result;
}

}  // namespace

bool StoredTensor::has_shape(const Shape& other) const {
  return std::equal(shape.begin(), shape.end(), other.dims().begin(), other.dims().end());
}

std::string StoredTensor::describe() const {
  std::string text = type.empty() ? std::string(safetensors_type(dtype)) : shown_name(type);
  text += " [";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

std::string_view safetensors_type(DType dtype) noexcept {
  if (dtype == DType::none) return {};
  const auto* row =
      std::find_if(types.begin(), types.end(), [&](const TypeRow& t) { return t.dtype == dtype; });
  return row == types.end() ? std::string_view{} : row->name;
}

SafetensorsContent parse_safetensors(std::span<const std::byte> file, const std::string& file_name) {
  const auto header_bytes = file.size() < 8 ? 0 : load_le<std::uint64_t>(file.data());
  if (header_bytes == 0 || header_bytes > safetensors_header_limit) {
    const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
    if (const std::string what = foreign_file(text); !what.empty()) fail(file_name, what);
  }
  if (file.size() < 8)
    fail(file_name,
         "has " + std::to_string(file.size()) + " bytes; a safetensors file begins with 8 bytes of length");
  if (header_bytes > safetensors_header_limit)
    fail(file_name, "does not begin as a safetensors file: the header length would be " +
                        std::to_string(header_bytes) + ", above the limit of " +
                        std::to_string(safetensors_header_limit));
  if (header_bytes > file.size() - 8)
    fail(file_name, "the header length " + std::to_string(header_bytes) + " is beyond the end of the file (" +
                        std::to_string(file.size()) +
                        " bytes): it is cut short, or no safetensors file; get it again");
  const auto data = file.subspan(8 + header_bytes);
  auto header = parse_safetensors_header(
      std::string_view(reinterpret_cast<const char*>(file.data()) + 8, header_bytes), file_name);

  std::vector<std::size_t> by_offset(header.entries.size());
  std::iota(by_offset.begin(), by_offset.end(), std::size_t{0});
  std::sort(by_offset.begin(), by_offset.end(), [&](std::size_t a, std::size_t b) {
    const auto& x = header.entries[a];
    const auto& y = header.entries[b];
    return std::pair(x.begin, x.end) < std::pair(y.begin, y.end);
  });
  std::uint64_t next = 0;
  for (const std::size_t i : by_offset) {
    const auto& entry = header.entries[i];
    if (entry.begin != next || entry.end < entry.begin)
      fail(file_name, "tensor " + quoted_name(entry.name) + " lies at [" + std::to_string(entry.begin) +
                          ", " + std::to_string(entry.end) + "), but the next free byte is " +
                          std::to_string(next));
    next = entry.end;
  }
  if (next > data.size())
    fail(file_name, "is cut short: the tensors take " + std::to_string(next) + " bytes, the file holds " +
                        std::to_string(data.size()) + " after its header; get it again");
  if (next != data.size())
    fail(file_name, "the tensors take " + std::to_string(next) + " bytes, the file holds " +
                        std::to_string(data.size()) + " after its header");

  SafetensorsContent content{{}, std::move(header.metadata)};
  content.tensors.reserve(header.entries.size());
  for (auto& entry : header.entries) content.tensors.push_back(checked_tensor(entry, data, file_name));
  return content;
}

SafetensorsFile::SafetensorsFile(std::filesystem::path path)
    : path_(std::move(path)),
      mapping_(as_checkpoint_error([this] { return MappedFile(path_); })),
      content_(parse_safetensors(mapping_.bytes(), path_.string())) {}

const StoredTensor* SafetensorsFile::find(std::string_view name) const noexcept {
  const auto& all = content_.tensors;
  const auto found = std::lower_bound(all.begin(), all.end(), name,
                                      [](const StoredTensor& t, std::string_view n) { return t.name < n; });
  return found != all.end() && found->name == name ? &*found : nullptr;
}

const StoredTensor& SafetensorsFile::at(std::string_view name) const {
  if (const auto* found = find(name)) return *found;
  fail(path_.string(), "has no tensor " + quoted_name(name));
}

}  // namespace weft
