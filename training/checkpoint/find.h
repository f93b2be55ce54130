#pragma once
// Which checkpoints there are, and which of them can be trusted.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "weft/training/checkpoint/manifest.h"

namespace weft {

/// One checkpoint: a folder with a manifest.
struct FoundCheckpoint {
  std::filesystem::path folder;
  Manifest manifest;
};

/// The checkpoints of a folder, newest first, by their manifests alone.
struct CheckpointList {
  std::vector<FoundCheckpoint> found;
  std::vector<std::string> damaged;  ///< one line for each whose manifest cannot be used: folder and reason
};

/// What a search for the newest valid checkpoint came to.
struct CheckpointSearch {
  std::optional<FoundCheckpoint> newest;
  std::vector<std::string> skipped;  ///< one line for each damaged one that was passed over
};

/// The name of a step's checkpoint, `step-00000100`.
[[nodiscard]] std::string checkpoint_name(std::uint64_t step);

/// True for a folder that holds a manifest.json.
[[nodiscard]] bool is_checkpoint(const std::filesystem::path& folder);

/// Looks at every `step-N` in `folder`; a folder that does not exist has none. The newest is the one that was
/// saved last (a run that went back to an earlier step goes on from there). Throws CheckpointError when the
/// folder cannot be read.
[[nodiscard]] CheckpointList list_checkpoints(const std::filesystem::path& folder);

/// Reads the manifest and every file and compares sizes and hashes; reads each file's header. Throws
/// CheckpointError, naming the first file that is damaged.
Manifest verify_checkpoint(const std::filesystem::path& checkpoint);

/// The newest checkpoint of `folder` that verify_checkpoint accepts, with the damaged ones it had to pass
/// over. Throws CheckpointError when there are checkpoints but none is valid, saying why for each.
[[nodiscard]] CheckpointSearch find_newest_valid(const std::filesystem::path& folder);

/// `path` itself when it is a checkpoint (then it must be valid), else the newest valid one in it. Throws
/// CheckpointError when there is none.
[[nodiscard]] CheckpointSearch resolve_checkpoint(const std::filesystem::path& path);

}  // namespace weft
