#include "weft/training/rank_trainer.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/model/weights/durable_file.h"
#include "weft/model/weights/hf_config.h"
#include "weft/model/weights/weights_hash.h"
#include "weft/training/checkpoint/commit.h"
#include "weft/training/checkpoint/find.h"
#include "weft/training/config/load.h"
#include "weft/training/given_weights.h"
#include "weft/training/learning_rate.h"
#include "weft/training/log_level.h"

namespace weft {
namespace {

RankOptions rank_options(const TrainingSetup& setup, Nanoseconds spin,
                         std::function<bool()> background_done) {
  RankOptions options;
  options.clip_gradient = setup.config.optimizer.clip_grad;
  options.stop_requested = setup.stop_requested;
  options.save_requested = setup.options.save_requested;
  options.background_done = std::move(background_done);
  options.spin = spin;
  return options;
}

std::string join(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

void split_into(std::vector<std::string>& lines, const std::string& text) {
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
}

// For ranks between the first stage and the last, which ask for nothing.
class NoBatches final : public BatchSource {
 public:
  const TensorList& inputs(std::uint32_t) override { return none_; }
  const TensorList& targets(std::uint32_t) override { return none_; }

 private:
  TensorList none_;
};

}  // namespace

RankTrainer::RankTrainer(const TrainingSetup& setup, std::uint32_t rank, Transport& transport,
                         Nanoseconds spin)
    : setup_(setup),
      rank_(rank, setup.plan, setup.stages, setup.optimizer, transport,
            rank_options(setup, spin, [this] { return !saving_ || writer_->ready(); })) {
  load_given_weights(setup.config, rank_.parameters());
  if (rank == 0) model_base_ = given_config_text(setup.config);
  if (setup.config.model.init_method.path) rank_.parameters_changed();
  if (has_first_stage() || has_last_stage() || setup.config.tokens.val_check_interval > 0) {
    data_.emplace(setup.config, setup.options.sources);
    batches_.emplace(setup.config, *data_);
  }
}

bool RankTrainer::has_first_stage() const { return setup_.plan.schedule.rank_of.front() == rank_.rank(); }
bool RankTrainer::has_last_stage() const { return setup_.plan.schedule.rank_of.back() == rank_.rank(); }

RunResult RankTrainer::run() {
  open_folder();
  resume();
  const NanotronConfig& config = setup_.config;
  const auto last_step = static_cast<std::uint64_t>(config.tokens.train_steps);
  RunResult result;
  result.folder = path_;
  result.exit_reason = "finished";
  result.steps = first_step_ - 1;
  if (has_last_stage()) log_ = std::make_unique<StepLog>(config, path_, result.steps);
  if (setup_.options.trace) rank_.actor().trace(&events_);
  if (config.checkpoints.save_initial_state && first_step_ == 1) begin_save(0);

  if (first_step_ > last_step && rank_.rank() == 0)
    log::info(fmt::format("all {} steps are done already", last_step));
  for (std::uint64_t step = first_step_; step <= last_step; ++step) {
    const Nanoseconds began = now_ns();
    if (batches_) batches_->begin_step(step);
    NoBatches nothing;
    const StepReport& report = rank_.train(step, batches_ ? static_cast<BatchSource&>(*batches_) : nothing);
    result.steps = step;
    const Nanoseconds time = now_ns() - began;
    const std::optional<double> validation = evaluate(step);
    if (log_) log_->step(step, report, rank_.optimizer().learning_rate(step), time, validation);
    after_step(step, report);
    if (report.stop_requested) {
      result.exit_reason = "stopped";
      if (saved_step_ != step && step != last_step) begin_save(step);
      break;
    }
  }
  if (config.checkpoints.save_final_state && result.steps == last_step && saved_step_ != last_step)
    begin_save(last_step);
  end_save();

  result.weights_sha256 = hash_weights();
  write_trace();
  if (log_) log_->finish(result);
  if (rank_.rank() == 0 && result.exit_reason == "stopped")
    log::info(fmt::format("stopped after step {}, saved in {}", result.steps, path_.string()));
  return result;
}

void RankTrainer::open_folder() {
  if (rank_.rank() == 0) {
    RunFolderRequest request;
    request.run_dir = setup_.options.run_dir;
    request.resuming = !setup_.options.resume.empty();
    folder_ = std::make_unique<RunFolder>(setup_.config, request);
    replace_file(config_file(folder_->path()), to_yaml(setup_.config));
    attempt_ = fmt::format("{:x}", now_ns());
  }
  const std::string told =
      rank_.broadcast_text(rank_.rank() == 0 ? attempt_ + "\n" + folder_->path().string() : std::string());
  attempt_ = told.substr(0, told.find('\n'));
  path_ = told.substr(told.find('\n') + 1);
  if (setup_.one_process_per_rank || rank_.rank() == 0)
    log::start(log_level_of(setup_.config), "", log_file(path_, rank_.rank()).string());
}

// No barrier: a rank goes through its forward ops and on to the next step.
std::optional<double> RankTrainer::evaluate(std::uint64_t step) {
  const std::int64_t interval = setup_.config.tokens.val_check_interval;
  if (interval <= 0 || step % static_cast<std::uint64_t>(interval) != 0) return std::nullopt;
  const std::uint64_t batches = data_->validation_batches(step);
  double sum = 0;
  for (std::uint64_t batch = 0; batch < batches; ++batch) {
    batches_->begin_validation(step, batch);
    sum += rank_.evaluate(++passes_, *batches_);
  }
  return sum / static_cast<double>(batches);
}

void RankTrainer::after_step(std::uint64_t step, const StepReport& report) {
  if (saving_ && report.background_done) end_save();
  const auto interval = setup_.config.checkpoints.checkpoint_interval;
  const bool due = interval && step % static_cast<std::uint64_t>(*interval) == 0;
  if (due || report.save_requested) begin_save(step);
}

std::string RankTrainer::hash_weights() {
  const auto texts = rank_.gather_text(join(weights_hash_lines(rank_.parameters())));
  std::string hash;
  if (rank_.rank() == 0) {
    std::vector<std::string> lines;
    for (const std::string& text : texts) split_into(lines, text);
    hash = weights_sha256(std::move(lines));
  }
  return rank_.broadcast_text(hash);
}

void RankTrainer::write_trace() {
  if (!setup_.options.trace) return;
  std::string mine(reinterpret_cast<const char*>(events_.data()), events_.size() * sizeof(TraceEvent));
  const auto texts = rank_.gather_text(mine);
  if (rank_.rank() != 0) return;
  std::vector<TraceEvent> all;
  for (const std::string& text : texts) {
    const std::size_t at = all.size();
    all.resize(at + text.size() / sizeof(TraceEvent));
    std::memcpy(all.data() + at, text.data(), text.size());
  }
  const std::filesystem::path name = *setup_.options.trace;
  const std::filesystem::path file = name.has_parent_path() ? name : path_ / name;
  write_named_file(file, to_chrome_trace(all, setup_.plan.schedule.name));
  log::info("trace written to " + file.string());
}

// --- checkpoints ---

void RankTrainer::begin_save(std::uint64_t step) {
  end_save();  // the next save waits for the last
  if (!writer_) {
    states_ = rank_.optimizer().state();
    writer_ = std::make_unique<SnapshotWriter>(rank_.rank(), rank_.parameters(), states_);
  }
  const auto folder = checkpoints_folder(path_, setup_.config);
  writer_->start(temporary_folder(folder, step, attempt_));
  saving_ = true;
  saved_step_ = step;
}

void RankTrainer::end_save() {
  if (!saving_) return;
  saving_ = false;
  const std::string mine = to_text(writer_->finish());
  const auto texts = rank_.gather_text(mine);
  if (rank_.rank() == 0) {
    std::vector<RankFiles> files;
    for (const std::string& text : texts) files.push_back(rank_files_from_text(text));
    const auto folder = checkpoints_folder(path_, setup_.config);
    const auto saved = commit_checkpoint(folder, temporary_folder(folder, saved_step_, attempt_),
                                         position(saved_step_), files);
    if (setup_.config.checkpoints.keep_last)
      keep_last(folder, static_cast<std::uint64_t>(*setup_.config.checkpoints.keep_last));
    log::info(fmt::format("saved step {} in {}", saved_step_, saved.string()));
  }
}

TrainingPosition RankTrainer::position(std::uint64_t step) const {
  const NanotronConfig& config = setup_.config;
  TrainingPosition position;
  position.step = step;
  position.consumed_samples = step * static_cast<std::uint64_t>(config.tokens.samples_per_step());
  position.consumed_tokens =
      position.consumed_samples * static_cast<std::uint64_t>(config.tokens.sequence_length);
  for (std::size_t i = 0; i < config.data_stages.size(); ++i) {
    const auto begins = static_cast<std::uint64_t>(config.data_stages[i].start_training_step) - 1;
    const std::uint64_t ends =
        i + 1 < config.data_stages.size()
            ? static_cast<std::uint64_t>(config.data_stages[i + 1].start_training_step) - 1
            : step;
    DataPosition data;
    data.stage = config.data_stages[i].name;
    data.consumed_samples =
        std::min(ends, step) > begins
            ? (std::min(ends, step) - begins) * static_cast<std::uint64_t>(config.tokens.samples_per_step())
            : 0;
    if (step > begins && step <= ends) data.fingerprint = data_->fingerprint(step);
    position.data.push_back(std::move(data));
  }
  position.optimizer = config.optimizer.optimizer_factory.name == OptimizerKind::sgd ? "sgd" : "adamW";
  position.learning_rate = step == 0 ? 0 : learning_rate(config, step);
  position.seed = config.general.seed;
  position.config = to_yaml(config);
  position.model = to_hf_config(Llama(config).config(),
                                static_cast<std::uint32_t>(config.model.model_config.max_position_embeddings),
                                model_base_);
  return position;
}

void RankTrainer::resume() {
  const std::string& wanted = setup_.options.resume;
  std::string found;
  if (rank_.rank() == 0) {
    const auto folder = checkpoints_folder(path_, setup_.config);
    const auto below = std::filesystem::absolute(folder).lexically_normal().lexically_relative(
        std::filesystem::absolute(path_).lexically_normal());
    const bool outside = *below.begin() == "..";
    if (outside)
      checkpoints_lock_ = std::make_unique<FolderLock>(folder);  // another run may have the same one
    remove_unfinished(folder);
    if (wanted == "auto" || wanted == "latest") {
      const CheckpointSearch search = find_newest_valid(folder);
      for (const std::string& skipped : search.skipped) log::warning("skipped: " + skipped);
      if (search.newest) found = search.newest->folder.string();
      if (!search.newest && wanted == "latest")
        throw CheckpointError(fmt::format("--resume latest: there is no checkpoint in {}", folder.string()));
    } else if (!wanted.empty()) {
      const CheckpointSearch search = resolve_checkpoint(wanted);
      for (const std::string& skipped : search.skipped) log::warning("skipped: " + skipped);
      found = search.newest->folder.string();
    }
  }
  found = rank_.broadcast_text(found);
  if (found.empty()) return;
  const CheckpointReader reader(found);
  std::vector<std::string> names;
  for (std::uint16_t s = 0; s < setup_.plan.parameters.size(); ++s)
    for (const std::string& name : setup_.plan.parameters[s]) names.push_back(name);
  for (const TiedPair& tie : setup_.plan.ties) std::erase(names, tie.name);
  reader.require_model(names);
  if (!reader.manifest().position.model.empty()) model_base_ = reader.manifest().position.model;
  if (reader.has_state()) {
    states_ = rank_.optimizer().state();
    reader.restore(rank_.parameters(), states_);
    first_step_ = reader.manifest().position.step + 1;
    if (rank_.rank() == 0) compare_data(reader.manifest().position);
  } else {
    reader.load_weights(rank_.parameters());
  }
  rank_.parameters_changed();
  saved_step_ = first_step_ - 1;
  if (rank_.rank() == 0) log::info(fmt::format("resuming after step {} from {}", first_step_ - 1, found));
}

// The step that the checkpoint stands at must have ended where this configuration says; other samples are a
// choice that the user may have made.
void RankTrainer::compare_data(const TrainingPosition& saved) const {
  const TrainingPosition here = position(saved.step);
  if (saved.consumed_samples != here.consumed_samples)
    throw CheckpointError(fmt::format(
        "the checkpoint of step {} has used {} samples, with this configuration it would be {}; "
        "allowed: micro_batch_size x batch_accumulation_per_replica as in the checkpoint's run, or "
        "a new run from its weights (weft convert weft-to-hf, model.init_method.path)",
        saved.step, saved.consumed_samples, here.consumed_samples));
  const auto fingerprint = [](const TrainingPosition& position) {
    for (const DataPosition& data : position.data)
      if (!data.fingerprint.empty()) return data.fingerprint;
    return std::string();
  };
  const std::string before = fingerprint(saved);
  if (!before.empty() && before != fingerprint(here))
    log::warning(fmt::format(
        "step {} read other samples in the checkpoint's run (files, seed, shuffle, sequence_length "
        "or data_stages have changed); training goes on with the data of this configuration",
        saved.step));
}

}  // namespace weft
