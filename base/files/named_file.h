#pragma once
// Writing to a path that a user named.
#include <filesystem>
#include <optional>
#include <string_view>

#include "weft/base/files/durable_file.h"

namespace weft {

/// A file that is written once, from start to end: symbolic links are followed, devices and pipes are written
/// into, and a regular file is replaced when all is there (a reader sees the old content or the new).
class NamedFile {
 public:
  /// Throws CheckpointError when it cannot be written.
  explicit NamedFile(const std::filesystem::path& path);

  /// Appends. Throws CheckpointError.
  void write(std::string_view text);
  /// Everything is there. Throws CheckpointError.
  void finish();

 private:
  std::filesystem::path path_;  // behind all links
  std::filesystem::path temporary_;
  std::optional<DurableFile> file_;
  Descriptor descriptor_;  // of a device or pipe
};

/// Throws CheckpointError when a NamedFile could not be written to `path` now, naming the reason. Makes and
/// changes nothing.
void check_named_file(const std::filesystem::path& path);

}  // namespace weft
