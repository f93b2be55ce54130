#pragma once
// A file that grows by whole records.
#include <cstdint>
#include <filesystem>
#include <string_view>

#include "weft/base/files/descriptor.h"

namespace weft {

/// Open for appending; made when it does not exist.
class AppendedFile {
 public:
  /// Throws Error, naming the file and the reason, when it cannot be opened.
  explicit AppendedFile(std::filesystem::path path);

  [[nodiscard]] std::uint64_t size() const noexcept { return size_; }
  /// Appends `record` in one write. When it does not fit (full disk, quota), what was written of it is taken
  /// back and Error names the file.
  void append(std::string_view record);
  /// Cuts the file. Throws Error.
  void truncate(std::uint64_t size);

 private:
  [[noreturn]] void fail(std::string_view what, int problem) const;

  std::filesystem::path path_;
  Descriptor descriptor_;
  std::uint64_t size_ = 0;
};

}  // namespace weft
