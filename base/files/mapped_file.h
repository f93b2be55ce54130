#pragma once
// A file seen as memory.
#include <cstddef>
#include <filesystem>
#include <span>

namespace weft {

/// A regular file mapped for reading. Moves; the mapping ends with the object. Reading bytes that the file
/// has lost since raises SIGBUS: for files that others may write to, see readable_file.h.
class MappedFile {
 public:
  /// Throws Error, naming the file and the reason, when it cannot be opened or is no regular file.
  explicit MappedFile(const std::filesystem::path& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft
