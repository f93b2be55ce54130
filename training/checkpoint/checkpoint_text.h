#pragma once
// What `weft checkpoint list|verify|hash|diff` print. Every path is one checkpoint or a folder of
// checkpoints (or of a run), which then stands for its newest valid one.
#include <filesystem>
#include <string>
#include <vector>

namespace weft {

/// Text for stdout, and a line for each damaged checkpoint that was passed over, for stderr.
struct CheckpointReport {
  std::string text;  ///< lines, each ended by a newline
  std::vector<std::string> skipped;
};

/// Of a folder: its checkpoints, newest first, one line each, then the damaged ones with the reason; files
/// are only looked for and their sizes compared. Of one checkpoint: its position and tensors. Throws
/// CheckpointError, also when there is none.
struct CheckpointListing {
  std::string text;
  bool damaged = false;  ///< some of them are
};
[[nodiscard]] CheckpointListing list_report(const std::filesystem::path& path);

/// Reads and hashes everything. Throws CheckpointError, naming the first thing that is wrong.
[[nodiscard]] CheckpointReport verify_report(const std::filesystem::path& path);

/// The lines of model/weights/weights_hash.h, sorted; the last line is weights_sha256, as in the result.json
/// of a run that ended there. Throws CheckpointError.
[[nodiscard]] CheckpointReport hash_report(const std::filesystem::path& path);

/// Where two checkpoints differ, tensor by tensor. Throws CheckpointError.
struct CheckpointDiff {
  CheckpointReport report;
  bool equal = false;  ///< same position, configuration and tensors, whatever the layout of files
};
[[nodiscard]] CheckpointDiff diff_report(const std::filesystem::path& left,
                                         const std::filesystem::path& right);

}  // namespace weft
