#include "weft/training/start_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/files/durable_folder.h"
#include "weft/base/files/folder_lock.h"
#include "weft/model/weights/hf_config.h"
#include "weft/training/checkpoint/commit.h"
#include "weft/training/config/load.h"
#include "weft/training/config/model_differences.h"
#include "weft/training/config/yaml_reader.h"
#include "weft/training/learning_rate.h"
#include "weft/training/run_folder.h"
#include "weft/training/training_position.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

void require_same_samples(const ResumePoint& point, const NanotronConfig& config,
                          const ConfigSources& sources) {
  const TrainingPosition& saved = point.checkpoint.manifest.position;
  const auto here = saved.step * static_cast<std::uint64_t>(config.tokens.samples_per_step());
  if (saved.consumed_samples == here) return;
  const std::string key = "tokens.batch_accumulation_per_replica";
  throw config_error(
      sources.find(key), key,
      fmt::format("the checkpoint {} of step {} has used {} samples, with this configuration it would be {}",
                  point.checkpoint.folder.string(), saved.step, saved.consumed_samples, here),
      "micro_batch_size x batch_accumulation_per_replica as in the checkpoint's run, or a new run from its "
      "weights (load_optimizer and load_lr_scheduler false)");
}

// --- folders ---

constexpr const char* path_key = "checkpoints.checkpoints_path";

bool will_save(const CheckpointsConfig& keys, std::uint64_t step, std::uint64_t last_step) {
  const auto interval = keys.checkpoint_interval;
  return (interval && step % static_cast<std::uint64_t>(*interval) == 0) ||
         (keys.save_final_state && step == last_step);
}

/// A run whose own checkpoints these are; else it is a new run, wherever its weights come from.
bool goes_on(const std::optional<ResumePoint>& point, const ResumeRequest& request) {
  return point && point->whole && (!request.resume.empty() || point->own);
}

void check_checkpoints_folder(const NanotronConfig& config, const ResumeRequest& request,
                              const ConfigSources& sources, const std::optional<ResumePoint>& point) {
  const fs::path run = planned_run_folder(config, request.run_dir);
  const fs::path folder = checkpoints_folder(run, config);
  check_writable_folder(folder);
  std::error_code error;
  if (!fs::equivalent(run, folder, error)) check_folder_is_free(folder);
  const std::vector<NamedStep> steps = named_steps(folder);
  for (const NamedStep& step : steps)
    if (!goes_on(point, request) && !is_checkpoint(step.path)) require_own_or_absent(step.path);
  if (!goes_on(point, request) && !steps.empty())
    throw config_error(sources.find(path_key), path_key,
                       fmt::format("{} holds checkpoints already ({}), which a new run would overwrite",
                                   folder.string(), steps.front().path.filename().string()),
                       "another folder, or --resume latest to go on with the run in it");
  const auto last_step = static_cast<std::uint64_t>(config.tokens.train_steps);
  for (const NamedStep& step : steps)
    if (step.step > point->steps_done() && step.step <= last_step &&
        step.path.filename() == checkpoint_name(step.step) &&
        will_save(config.checkpoints, step.step, last_step))
      require_own_or_absent(step.path);
}

// --- settings ---

std::string text_of(const Node* node) {
  if (node == nullptr) return "null";
  if (node->kind == Node::Kind::scalar) return node->text;
  std::string text;
  for (const Node& child : node->children) text += (text.empty() ? "" : ", ") + text_of(&child);
  return "[" + text + "]";
}

void compare_settings(const Node* before, const Node* now, const std::string& path,
                      std::vector<std::string>& changes) {
  const bool blocks = before != nullptr && now != nullptr && before->kind == Node::Kind::block &&
                      now->kind == Node::Kind::block;
  if (!blocks) {
    if (text_of(before) != text_of(now))
      changes.push_back(fmt::format("{}: {} -> {}", path, text_of(before), text_of(now)));
    return;
  }
  std::vector<std::string> keys = before->keys;
  for (const std::string& key : now->keys)
    if (before->find(key) == nullptr) keys.push_back(key);
  for (const std::string& key : keys)
    compare_settings(before->find(key), now->find(key), path + "." + key, changes);
}

/// The learning rate of the next step, when it is not the one that the checkpoint's configuration gives it.
std::string changed_rate(const TrainingPosition& saved, const NanotronConfig& config) try {
  const std::uint64_t last = saved.step;
  const NanotronConfig before = parse_written_config(saved.config, "manifest.json");
  const double planned = learning_rate(before, last + 1);
  const double now = learning_rate(config, last + 1);
  if (last == 0 || planned == now) return {};
  return fmt::format("learning rate: {:.4g} at step {} -> {:.4g} at step {} (it would have been {:.4g})",
                     learning_rate(before, last), last, now, last + 1, planned);
} catch (const ConfigError&) {
  return {};  // written by another version
}

}  // namespace

void check_start(const NanotronConfig& config, const ResumeRequest& request, const ConfigSources& sources) {
  const std::optional<ResumePoint> point = expected_resume_point(config, request, sources);
  const RunFolderRequest folder = run_folder_request(request, point);
  require_no_other_run(folder);
  if (point) require_same_training(*point, config, sources);
  if (point && is_finished(*point, config)) return;  // nothing will be written
  check_run_folder(config, folder);
  try {
    check_checkpoints_folder(config, request, sources, point);
  } catch (const CheckpointError& e) {
    throw config_error(sources.find(path_key), path_key, e.what());
  }
}

RunFolderRequest run_folder_request(const ResumeRequest& request, const std::optional<ResumePoint>& point) {
  return {request.run_dir, !request.resume.empty() || (point && point->own)};
}

void require_same_training(const ResumePoint& point, const NanotronConfig& config,
                           const ConfigSources& sources) {
  const TrainingPosition& saved = point.checkpoint.manifest.position;
  const std::string folder = point.checkpoint.folder.string();
  std::vector<KeyDifference> differences;
  if (!saved.model.empty()) {
    HfConfig there;
    try {
      there = parse_hf_config(saved.model, folder + "/manifest.json: model");
    } catch (const CheckpointError& e) {
      throw ConfigError(e.what());
    }
    differences = model_differences(there.llama, config.model.architecture());
    if (point.whole && there.dtype && there.dtype != config.model.dtype)
      differences.push_back({"model.dtype", std::string(dtype_name(*there.dtype)),
                             std::string(dtype_name(config.model.dtype))});
  }
  if (point.whole && saved.optimizer != optimizer_name(config))
    differences.push_back({"optimizer.optimizer_factory.name", saved.optimizer, optimizer_name(config)});
  if (differences.empty()) {
    if (point.whole) require_same_samples(point, config, sources);
    return;
  }
  const KeyDifference& first = differences.front();
  std::string text = fmt::format("is {} in the checkpoint {}, and {} in the configuration", first.first,
                                 folder, first.second);
  for (std::size_t i = 1; i < differences.size(); ++i) {
    const KeyDifference& other = differences[i];
    text += fmt::format("; {} is {} there, and {} here", other.key, other.first, other.second);
  }
  const bool model_differs = first.key.starts_with("model.model_config.");
  throw config_error(sources.find(first.key), first.key, text,
                     model_differs ? "the checkpoint's values"
                                   : "the checkpoint's values, or a new run from its weights "
                                     "(checkpoints.load_optimizer and load_lr_scheduler false)");
}

std::vector<std::string> changed_settings(const Manifest& manifest, const NanotronConfig& config) {
  std::vector<std::string> changes;
  try {
    const Node before = parse_yaml(manifest.position.config, Source{"manifest.json", 1, 1, 0});
    const Node now = parse_yaml(to_yaml(config), Source{});
    for (const char* block : {"optimizer", "tokens"})
      compare_settings(before.find(block), now.find(block), block, changes);
    const std::string rate = changed_rate(manifest.position, config);
    if (!rate.empty()) changes.push_back(rate);
  } catch (const ConfigError&) {
    changes.clear();  // written by another version: nothing that a run depends on
  }
  return changes;
}

}  // namespace weft
