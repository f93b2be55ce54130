#pragma once
// Safetensors files: 8 bytes length, a JSON header, the data of all tensors without
// holes.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/files/mapped_file.h"
#include "weft/tensor/dtype.h"
#include "weft/tensor/shape.h"

namespace weft {

/// Limits on what is read and written.
inline constexpr std::uint64_t safetensors_header_limit = 100'000'000;
inline constexpr std::size_t safetensors_tensor_limit = 200'000;
inline constexpr std::size_t safetensors_dims_limit = 32;

/// One tensor of a file. `bytes` are little-endian, row-major and need not be aligned.
struct StoredTensor {
  std::string name;
  std::string_view type;      ///< the file's word, for example `BF16`
  DType dtype = DType::none;  ///< none when weft does not compute with that type
  std::vector<std::uint64_t> shape;
  std::span<const std::byte> bytes;

  [[nodiscard]] bool has_shape(const Shape& other) const;
  /// For messages, for example `BF16 [256, 64]`.
  [[nodiscard]] std::string describe() const;
};

/// Free text that a file carries.
using SafetensorsMetadata = std::map<std::string, std::string>;

/// The tensors of a safetensors file, sorted by name.
struct SafetensorsContent {
  std::vector<StoredTensor> tensors;
  SafetensorsMetadata metadata;
};

/// Reads the header of a whole file that lies in memory. The tensors refer to `file`. Everything is checked:
/// lengths, JSON, types, overflow, overlaps, holes, names given twice. Throws CheckpointError that begins
/// with `file_name`.
[[nodiscard]] SafetensorsContent parse_safetensors(std::span<const std::byte> file,
                                                   const std::string& file_name);

/// The file's word for a type, `F32`, `BF16`, ...; empty for DType::none.
[[nodiscard]] std::string_view safetensors_type(DType dtype) noexcept;

/// A file mapped into memory for reading. Only the pages that are read are loaded.
class SafetensorsFile {
 public:
  /// Throws CheckpointError as parse_safetensors does, and when the file cannot be opened or mapped.
  explicit SafetensorsFile(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  /// Sorted by name.
  [[nodiscard]] std::span<const StoredTensor> tensors() const noexcept { return content_.tensors; }
  [[nodiscard]] const SafetensorsMetadata& metadata() const noexcept { return content_.metadata; }
  /// Null when there is no such tensor.
  [[nodiscard]] const StoredTensor* find(std::string_view name) const noexcept;
  /// Throws CheckpointError when there is no such tensor.
  [[nodiscard]] const StoredTensor& at(std::string_view name) const;

 private:
  std::filesystem::path path_;
  MappedFile mapping_;
  SafetensorsContent content_;
};

}  // namespace weft
