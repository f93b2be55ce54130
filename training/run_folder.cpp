#include "weft/training/run_folder.h"

#include <fmt/core.h>

#include <cstdlib>
#include <ctime>

#include "weft/base/error.h"
#include "weft/base/files/durable_folder.h"
#include "weft/training/config/source.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

bool holds_a_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(config_file(folder), error) || fs::exists(metrics_file(folder), error);
}

std::string date_and_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  const std::size_t n = std::strftime(text, sizeof(text), "%Y%m%d_%H%M%S", &local);
  return {text, n};
}

std::string run_name(const NanotronConfig& config) {
  const char* job = std::getenv("SLURM_JOB_ID");
  return expand_run_name(config.general.run, date_and_time(), job != nullptr ? job : "local");
}

/// The n-th folder of that name.
fs::path numbered(const std::string& name, int n) {
  return fs::path("runs") / (n == 1 ? name : fmt::format("{}-{}", name, n));
}

}  // namespace

void require_no_other_run(const RunFolderRequest& request) {
  if (!request.run_dir || request.resuming) return;
  if (holds_a_run(*request.run_dir))
    throw ConfigError(fmt::format(
        "--run-dir: {} holds a run already; allowed: another folder, or --resume latest", *request.run_dir));
}

std::optional<std::string> explicit_run_folder(const NanotronConfig& config,
                                               const std::optional<std::string>& run_dir,
                                               const std::string& resume) {
  if (run_dir || (resume != "auto" && resume != "latest")) return run_dir;
  const std::string name = run_name(config);
  std::optional<std::string> newest;
  std::error_code error;
  for (int n = 1; fs::exists(numbered(name, n), error); ++n)
    if (holds_a_run(numbered(name, n))) newest = numbered(name, n).string();
  return newest;
}

fs::path planned_run_folder(const NanotronConfig& config, const std::optional<std::string>& run_dir) {
  if (run_dir) return *run_dir;
  const std::string name = run_name(config);
  std::error_code error;
  int n = 1;
  while (fs::exists(fs::symlink_status(numbered(name, n), error))) ++n;
  return numbered(name, n);
}

void check_run_folder(const NanotronConfig& config, const RunFolderRequest& request) {
  const fs::path folder = planned_run_folder(config, request.run_dir);
  if (folder.empty()) throw config_error({}, "--run-dir", "names no folder");
  try {
    check_writable_folder(folder);
    if (request.run_dir) check_folder_is_free(folder);
  } catch (const CheckpointError& e) {
    if (request.run_dir) throw config_error({}, "--run-dir", e.what());
    throw config_error({}, "the run's folder", e.what(), "--run-dir with a folder that can be written");
  }
}

RunFolder::RunFolder(const NanotronConfig& config, const RunFolderRequest& request) {
  try {
    if (request.run_dir) {
      path_ = *request.run_dir;
      fs::create_directories(path_);
      lock_ = std::make_unique<FolderLock>(path_);
      require_no_other_run(request);
    } else {
      const std::string name = run_name(config);
      path_ = numbered(name, 1);
      fs::create_directories(path_.parent_path());
      // create_directory says whether it was this process that made it, so two runs never share a folder.
      for (int n = 2; !fs::create_directory(path_); ++n) path_ = numbered(name, n);
      lock_ = std::make_unique<FolderLock>(path_);
    }
    fs::create_directories(path_ / "logs");
  } catch (const fs::filesystem_error& e) {
    throw Error(fmt::format("cannot make the run's folder {}: {}", path_.string(), e.code().message()));
  }
  // Always a lock of its own: another run, in another folder, may have been given the same checkpoints.
  const fs::path checkpoints = checkpoints_folder(path_, config);
  std::error_code error;
  if (!fs::equivalent(path_, checkpoints, error))
    checkpoints_lock_ = std::make_unique<FolderLock>(checkpoints);
}

std::filesystem::path log_file(const std::filesystem::path& run, std::uint32_t rank) {
  return run / "logs" / fmt::format("rank-{:04d}.log", rank);
}

fs::path checkpoints_folder(const fs::path& run, const NanotronConfig& config) {
  const fs::path path = fs::path(config.checkpoints.checkpoints_path).lexically_normal();
  if (path.empty() || *path.begin() != "..") return run / path;  // an absolute path replaces the folder
  // the run's folder may not exist yet, and then the system knows nothing above it
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(run, error);
  return ((error ? run : whole) / path).lexically_normal();
}

}  // namespace weft
