#include "weft/training/resume.h"

#include <fmt/core.h>

#include <system_error>

#include "weft/base/error.h"
#include "weft/training/run_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr const char* flag = "--resume";
constexpr const char* resume_key = "checkpoints.resume_checkpoint_path";

/// What is wrong, and with which flag or key.
struct Refusal {
  std::string where;
  std::string problem;
};

/// How thoroughly checkpoints are looked at.
struct Search {
  CheckpointSearch (*newest)(const fs::path& folder);
  CheckpointSearch (*resolve)(const fs::path& path);
};

CheckpointSearch look(CheckpointSearch (*search)(const fs::path&), const fs::path& path, const char* where) {
  try {
    return search(path);
  } catch (const CheckpointError& e) {
    throw Refusal{where, e.what()};
  }
}

bool lies_in(const fs::path& checkpoint, const fs::path& folder) {
  std::error_code error;
  const fs::path parent = fs::weakly_canonical(checkpoint, error).parent_path();
  return !error && fs::equivalent(parent, folder, error) && !error;
}

ResumePoint point_at(CheckpointSearch& search) {
  ResumePoint point{std::move(*search.newest), false, false, std::move(search.skipped)};
  point.whole = !point.checkpoint.manifest.position.optimizer.empty();
  return point;
}

/// What the two keys say about a checkpoint that is not simply the run's own newest.
void apply_load_keys(ResumePoint& point, const CheckpointsConfig& keys) {
  if (keys.load_optimizer && keys.load_lr_scheduler) return;
  if (point.whole && keys.load_optimizer != keys.load_lr_scheduler)
    throw Refusal{keys.load_optimizer ? "checkpoints.load_lr_scheduler" : "checkpoints.load_optimizer",
                  "false for this one alone is not supported: weft restores a run whole, or starts a new one "
                  "at step 1 from the weights; allowed: load_optimizer and load_lr_scheduler both true, or "
                  "both false"};
  point.whole = false;
}

std::optional<ResumePoint> find(const NanotronConfig& config, const ResumeRequest& request,
                                const Search& search) {
  if (!wants_resume(config, request)) return std::nullopt;
  const auto run_dir = explicit_run_folder(config, request.run_dir, request.resume);
  const fs::path own = checkpoints_folder(planned_run_folder(config, run_dir), config);
  const auto& configured = config.checkpoints.resume_checkpoint_path;
  std::optional<std::string> path = request.resume;
  const char* where = flag;
  if (request.resume == "auto" || request.resume == "latest") {
    CheckpointSearch newest = look(search.newest, own, flag);
    if (newest.newest) {
      ResumePoint point = point_at(newest);
      point.own = true;
      return point;
    }
    if (request.resume == "latest")
      throw Refusal{flag, fmt::format("latest: there is no checkpoint in {}; allowed: auto (begins at step 1 "
                                      "then), a checkpoint's folder{}",
                                      own.string(),
                                      request.run_dir ? "" : ", or --run-dir with the run to go on with")};
  }
  if (request.resume.empty() || request.resume == "auto") {
    path = configured;
    where = resume_key;
  }
  if (!path) return std::nullopt;
  CheckpointSearch named = look(search.resolve, *path, where);
  ResumePoint point = point_at(named);
  point.own = lies_in(point.checkpoint.folder, own);
  apply_load_keys(point, config.checkpoints);
  return point;
}

}  // namespace

bool wants_resume(const NanotronConfig& config, const ResumeRequest& request) noexcept {
  return !request.resume.empty() || config.checkpoints.resume_checkpoint_path;
}

bool is_finished(const ResumePoint& point, const NanotronConfig& config) noexcept {
  return point.steps_done() >= static_cast<std::uint64_t>(config.tokens.train_steps);
}

std::optional<ResumePoint> verified_resume_point(const NanotronConfig& config, const ResumeRequest& request) {
  try {
    return find(config, request, {find_newest_valid, resolve_checkpoint});
  } catch (const Refusal& refusal) {
    throw CheckpointError(refusal.where + ": " + refusal.problem);
  }
}

std::optional<ResumePoint> expected_resume_point(const NanotronConfig& config, const ResumeRequest& request,
                                                 const ConfigSources& sources) {
  try {
    return find(config, request, {find_newest_present, resolve_present_checkpoint});
  } catch (Refusal& refusal) {
    std::string& text = refusal.problem;
    for (std::size_t at = 0; (at = text.find("\n  ", at)) != std::string::npos;) text.replace(at, 3, "; ");
    if (refusal.where == flag) throw config_error({}, flag, text);
    throw config_error(sources.find(refusal.where), refusal.where, text);
  }
}

}  // namespace weft
