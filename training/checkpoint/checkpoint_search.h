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

/// Reads the manifest and compares the sizes of all files with it, which takes no time. Throws
/// CheckpointError, naming the first file that is missing or has another size.
Manifest check_presence(const std::filesystem::path& checkpoint);

/// Reads the manifest and every file and compares sizes and hashes; reads each file's header. Throws
/// CheckpointError, naming the first file that is damaged.
Manifest verify_checkpoint(const std::filesystem::path& checkpoint);

/// The newest checkpoint of `folder` that verify_checkpoint accepts, with the damaged ones it had to pass
/// over. Throws CheckpointError when there are checkpoints but none is valid, saying why for each.
[[nodiscard]] CheckpointSearch find_newest_valid(const std::filesystem::path& folder);

/// The newest checkpoint of `folder` that check_presence accepts: what find_newest_valid will most likely
/// find. Throws as that does.
[[nodiscard]] CheckpointSearch find_newest_present(const std::filesystem::path& folder);

/// `path` itself when it is a checkpoint (then it must be valid), else the newest valid one in it or, when it
/// is the folder of a run, in that run's folder of checkpoints. Throws CheckpointError when there is none.
[[nodiscard]] CheckpointSearch resolve_checkpoint(const std::filesystem::path& path);

/// The same with check_presence in place of verify_checkpoint.
[[nodiscard]] CheckpointSearch resolve_present_checkpoint(const std::filesystem::path& path);

/// The folder of checkpoints that `path` means: itself, or that of the run whose folder it is (it holds a
/// config.yaml and no checkpoint). Throws CheckpointError when it does not exist or is no folder.
[[nodiscard]] std::filesystem::path folder_of_checkpoints(const std::filesystem::path& path);

/// The names in `folder` that are those of checkpoints, `step-N`, whatever they hold, with their steps.
struct NamedStep {
  std::uint64_t step = 0;
  std::filesystem::path path;
};
[[nodiscard]] std::vector<NamedStep> named_steps(const std::filesystem::path& folder);

}  // namespace weft
