#pragma once
// A file seen as memory.
#include <cstddef>
#include <span>
#include <string>

namespace weft {

/// A regular file mapped for reading. Moves; the mapping ends with the object.
class MappedFile {
 public:
  /// Throws Error, naming the file and the reason, when it cannot be opened, is no regular file or is empty.
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace weft
