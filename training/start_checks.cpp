#include "weft/training/start_checks.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/files/durable_folder.h"
#include "weft/base/files/folder_lock.h"
#include "weft/model/weights/hf_config.h"
#include "weft/training/checkpoint/commit.h"
#include "weft/training/config/load.h"
#include "weft/training/config/yaml_reader.h"
#include "weft/training/llama.h"
#include "weft/training/run_folder.h"
#include "weft/training/training_position.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

struct Difference {
  std::string key;
  std::string checkpoint;
  std::string configuration;
};

/// Collects values that differ, as text.
class Comparison {
 public:
  template <class T>
  void add(std::string key, const T& checkpoint, const T& configuration) {
    if (checkpoint != configuration)
      differences_.push_back(
          {std::move(key), fmt::format("{}", checkpoint), fmt::format("{}", configuration)});
  }
  [[nodiscard]] const std::vector<Difference>& differences() const noexcept { return differences_; }

 private:
  std::vector<Difference> differences_;
};

std::string_view rope_name(RopeType type) {
  switch (type) {
    case RopeType::linear:
      return "linear";
    case RopeType::llama3:
      return "llama3";
    case RopeType::standard:
      break;
  }
  return "default";
}

void compare_models(Comparison& all, const LlamaConfig& a, const LlamaConfig& b) {
  const std::string block = "model.model_config.";
  all.add(block + "vocab_size", a.vocab_size, b.vocab_size);
  all.add(block + "hidden_size", a.hidden_size, b.hidden_size);
  all.add(block + "intermediate_size", a.intermediate_size, b.intermediate_size);
  all.add(block + "num_hidden_layers", a.num_hidden_layers, b.num_hidden_layers);
  all.add(block + "num_attention_heads", a.num_attention_heads, b.num_attention_heads);
  all.add(block + "num_key_value_heads", a.num_key_value_heads, b.num_key_value_heads);
  all.add(block + "head_dim", a.head_dim, b.head_dim);
  all.add(block + "rms_norm_eps", a.rms_norm_eps, b.rms_norm_eps);
  all.add(block + "rope_theta", a.rope_theta, b.rope_theta);
  all.add(block + "tie_word_embeddings", a.tie_word_embeddings, b.tie_word_embeddings);
  all.add(block + "attention_bias", a.attention_bias, b.attention_bias);
  const RopeScaling& x = a.rope_scaling;
  const RopeScaling& y = b.rope_scaling;
  const std::string rope = block + "rope_scaling.";
  all.add(rope + "rope_type", rope_name(x.type), rope_name(y.type));
  if (x.type != y.type || x.type == RopeType::standard) return;
  all.add(rope + "factor", x.factor, y.factor);
  if (x.type != RopeType::llama3) return;
  all.add(rope + "low_freq_factor", x.low_freq_factor, y.low_freq_factor);
  all.add(rope + "high_freq_factor", x.high_freq_factor, y.high_freq_factor);
  all.add(rope + "original_max_position_embeddings", x.original_max_position_embeddings,
          y.original_max_position_embeddings);
}

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
  Comparison all;
  const LlamaConfig here = Llama(config).config();
  if (!saved.model.empty()) {
    HfConfig there;
    try {
      there = parse_hf_config(saved.model, folder + "/manifest.json: model");
    } catch (const CheckpointError& e) {
      throw ConfigError(e.what());
    }
    compare_models(all, there.llama, here);
    if (point.whole && there.dtype) all.add("model.dtype", dtype_name(*there.dtype), dtype_name(here.dtype));
  }
  if (point.whole) all.add("optimizer.optimizer_factory.name", saved.optimizer, optimizer_name(config));
  if (all.differences().empty()) {
    if (point.whole) require_same_samples(point, config, sources);
    return;
  }
  const Difference& first = all.differences().front();
  std::string text = fmt::format("is {} in the checkpoint {}, and {} in the configuration", first.checkpoint,
                                 folder, first.configuration);
  for (std::size_t i = 1; i < all.differences().size(); ++i) {
    const Difference& other = all.differences()[i];
    text += fmt::format("; {} is {} there, and {} here", other.key, other.checkpoint, other.configuration);
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
  } catch (const ConfigError&) {
    changes.clear();  // written by another version: nothing that a run depends on
  }
  return changes;
}

}  // namespace weft
