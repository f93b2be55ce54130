#include "weft/training/run_folder.h"

#include <fmt/core.h>

#include <cstdlib>
#include <ctime>

#include "weft/base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

bool holds_a_run(const fs::path& folder) {
  return fs::exists(config_file(folder)) || fs::exists(metrics_file(folder));
}

std::string date_and_time() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  const std::size_t n = std::strftime(text, sizeof(text), "%Y%m%d_%H%M%S", &local);
  return {text, n};
}

}  // namespace

void check_run_folder(const RunFolderRequest& request) {
  if (!request.run_dir || request.resuming) return;
  if (holds_a_run(*request.run_dir))
    throw ConfigError(fmt::format(
        "--run-dir: {} holds a run already; allowed: another folder, or --resume latest", *request.run_dir));
}

RunFolder::RunFolder(const NanotronConfig& config, const RunFolderRequest& request) {
  try {
    if (request.run_dir) {
      path_ = *request.run_dir;
      fs::create_directories(path_);
      lock_ = std::make_unique<FolderLock>(path_);
      check_run_folder(request);
    } else {
      const char* job = std::getenv("SLURM_JOB_ID");
      const std::string name =
          expand_run_name(config.general.run, date_and_time(), job != nullptr ? job : "local");
      fs::create_directories("runs");
      path_ = fs::path("runs") / name;
      // create_directory says whether it was this process that made it, so two runs never share a folder.
      for (int n = 2; !fs::create_directory(path_); ++n)
        path_ = fs::path("runs") / fmt::format("{}-{}", name, n);
      lock_ = std::make_unique<FolderLock>(path_);
    }
    fs::create_directories(path_ / "logs");
  } catch (const fs::filesystem_error& e) {
    throw Error(fmt::format("cannot make the run's folder {}: {}", path_.string(), e.code().message()));
  }
}

std::filesystem::path log_file(const std::filesystem::path& run, std::uint32_t rank) {
  return run / "logs" / fmt::format("rank-{:04d}.log", rank);
}

std::filesystem::path checkpoints_folder(const std::filesystem::path& run, const NanotronConfig& config) {
  return run / config.checkpoints.checkpoints_path;  // an absolute path replaces the folder
}

}  // namespace weft
