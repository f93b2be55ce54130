#pragma once
// Folders that are complete or absent, and whether a folder can be written before work begins.
#include <filesystem>
#include <functional>
#include <string_view>

namespace weft {

/// Makes the folder `path` with the files that `fill` writes into the folder it is given. A folder that does
/// not exist appears whole, in one step. Into an empty one (it may be `.`, a mount point, or behind a
/// symbolic link) the files are moved, `last_file` as the last: only with that file is the folder complete.
/// Whatever fails leaves nothing behind. Throws CheckpointError when `path` exists and is not an empty
/// folder, and whatever `fill` throws.
void write_folder(const std::filesystem::path& path, std::string_view last_file,
                  const std::function<void(const std::filesystem::path&)>& fill);

/// Throws CheckpointError when `path` is neither a folder that this process may write to nor one that it
/// could make now. Leaves nothing behind.
void check_writable_folder(const std::filesystem::path& path);

}  // namespace weft
