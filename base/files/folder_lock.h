#pragma once
// One run at a time in a folder.
#include <filesystem>

#include "weft/base/files/descriptor.h"

namespace weft {

/// Holds a folder while it lives, and no longer than its process, however that ends.
class FolderLock {
 public:
  /// Makes the folder if it is missing and locks its file `.lock`. Throws CheckpointError when another run
  /// has it (naming that process where it is known) or when the file cannot be made.
  explicit FolderLock(const std::filesystem::path& folder);

 private:
  Descriptor descriptor_;  // the file stays: removing it would let two runs lock two files of the same name
};

/// Throws CheckpointError when another run has the folder. Makes and locks nothing.
void check_folder_is_free(const std::filesystem::path& folder);

}  // namespace weft
