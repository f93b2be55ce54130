#pragma once
// One run at a time in a folder.
#include <filesystem>

namespace weft {

/// Holds a folder for this process, however it ends.
class FolderLock {
 public:
  /// Makes the folder if it is missing and locks its file `.lock`. Throws CheckpointError when another run
  /// has it (naming that process where it is known) or when the file cannot be made.
  explicit FolderLock(const std::filesystem::path& folder);
  ~FolderLock();
  FolderLock(FolderLock&& other) noexcept;
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  FolderLock& operator=(FolderLock&&) = delete;

 private:
  int descriptor_ = -1;
};

/// Throws CheckpointError when another run has the folder. Makes and locks nothing.
void check_folder_is_free(const std::filesystem::path& folder);

}  // namespace weft
