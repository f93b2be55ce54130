#pragma once
// A regular file, read piece by piece.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>

#include "weft/base/files/descriptor.h"

namespace weft {

/// Open for reading at any place, by any number of threads. Unlike a mapping, a file that becomes shorter
/// while it is in use is an error and no signal.
class ReadableFile {
 public:
  /// Throws Error, naming the file and the reason, when it cannot be opened or is no regular file.
  explicit ReadableFile(std::filesystem::path path);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_.number(); }
  /// Bytes when it was opened.
  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }

  /// Reads from byte `offset` on; returns how much, less than `into.size()` at the file's end only. Throws
  /// Error.
  std::size_t read_up_to(std::uint64_t offset, std::span<std::byte> into) const;
  /// Fills `into`. Throws Error also when the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> into) const;

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace weft
