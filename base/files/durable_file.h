#pragma once
// Files that are whole or absent, also after a crash or with a full disk.
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

#include "weft/base/files/descriptor.h"
#include "weft/base/sha256.h"

namespace weft {

/// What a finished file is known by.
struct FileRecord {
  std::string name;  ///< without folder
  std::uint64_t bytes = 0;
  std::string sha256;

  friend bool operator==(const FileRecord&, const FileRecord&) = default;
};

/// A new file that is written once, from start to end, and hashed on the way. Removed again unless finished.
class DurableFile {
 public:
  /// Creates the file. Throws CheckpointError when it cannot be created or exists.
  explicit DurableFile(std::filesystem::path path);
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  /// Appends. Throws CheckpointError, naming the file, when not everything could be written.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text.data(), text.size()))); }
  /// Flushes to the medium and closes. Throws CheckpointError; after a failed flush the file is not to be
  /// trusted and is removed.
  FileRecord finish();

 private:
  std::filesystem::path path_;
  Descriptor descriptor_;
  bool finished_ = false;
  std::uint64_t bytes_ = 0;
  Sha256 hash_;
};

/// Makes the entries of a folder durable. Throws CheckpointError.
void sync_folder(const std::filesystem::path& folder);

/// Renames `from` to `to` in one step and makes that durable. Throws CheckpointError.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);

/// Puts `text` into the file `path`: a reader sees the old content or the new, never a part. Throws
/// CheckpointError.
void replace_file(const std::filesystem::path& path, std::string_view text);

/// A name for the sibling under which `path` is written until it is complete; another one at every call, in
/// this process and in others that live.
[[nodiscard]] std::filesystem::path temporary_sibling(const std::filesystem::path& path);

/// The whole text of a small file. Throws CheckpointError when it cannot be read, is no regular file or is
/// longer than `limit` bytes.
[[nodiscard]] std::string read_small_file(const std::filesystem::path& path, std::size_t limit);

/// Size and SHA-256 of a file as it lies on the medium. Throws CheckpointError.
[[nodiscard]] FileRecord hash_file(const std::filesystem::path& path);

}  // namespace weft
