#pragma once
// The folder of one run: found or made once, held by a lock.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "weft/base/files/folder_lock.h"
#include "weft/training/config/nanotron_config.h"

namespace weft {

/// What the command line says about the folder.
struct RunFolderRequest {
  std::optional<std::string> run_dir;  ///< --run-dir
  bool resuming = false;               ///< then an explicit folder may hold a run
};

/// Throws ConfigError when an explicit folder holds a run already and the run does not go on with one.
void require_no_other_run(const RunFolderRequest& request);

/// The explicit folder that a run has: `run_dir`; or for `resume` = auto or latest without it the newest
/// `runs/<general.run>`, -2, -3, ... that holds a run; none where there is no such run.
[[nodiscard]] std::optional<std::string> explicit_run_folder(const NanotronConfig& config,
                                                             const std::optional<std::string>& run_dir,
                                                             const std::string& resume);

/// The folder that a run which starts now would have: the explicit one, or `runs/<general.run>` under the
/// current directory, with -2, -3, ... where that exists.
[[nodiscard]] std::filesystem::path planned_run_folder(const NanotronConfig& config,
                                                       const std::optional<std::string>& run_dir);

/// Throws ConfigError when the planned folder cannot be made or written, or another run uses it. Makes
/// nothing.
void check_run_folder(const NanotronConfig& config, const RunFolderRequest& request);

/// A run's folder and its folder of checkpoints, with their locks.
class RunFolder {
 public:
  /// Makes the planned folder and the one for checkpoints, and locks both. Throws CheckpointError when
  /// another run uses one of them, Error when they cannot be made.
  RunFolder(const NanotronConfig& config, const RunFolderRequest& request);

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
  std::unique_ptr<FolderLock> lock_;
  std::unique_ptr<FolderLock> checkpoints_lock_;
};

/// The files in it.
[[nodiscard]] inline std::filesystem::path metrics_file(const std::filesystem::path& run) {
  return run / "metrics.jsonl";
}
[[nodiscard]] inline std::filesystem::path result_file(const std::filesystem::path& run) {
  return run / "result.json";
}
[[nodiscard]] inline std::filesystem::path config_file(const std::filesystem::path& run) {
  return run / "config.yaml";
}
/// `logs/rank-NNNN.log`.
[[nodiscard]] std::filesystem::path log_file(const std::filesystem::path& run, std::uint32_t rank);
/// checkpoints.checkpoints_path, relative paths from the run's folder.
[[nodiscard]] std::filesystem::path checkpoints_folder(const std::filesystem::path& run,
                                                       const NanotronConfig& config);

}  // namespace weft
