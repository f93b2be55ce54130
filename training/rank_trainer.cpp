#include "weft/training/rank_trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>

#include "weft/base/error.h"
#include "weft/base/files/durable_file.h"
#include "weft/base/log.h"
#include "weft/model/ops/cpu/cpu_level.h"
#include "weft/model/weights/weights_hash.h"
#include "weft/training/checkpoint/commit.h"
#include "weft/training/checkpoint/reader.h"
#include "weft/training/config/load.h"
#include "weft/training/config/partition.h"
#include "weft/training/console.h"
#include "weft/training/given_weights.h"
#include "weft/training/resume.h"
#include "weft/training/start_checks.h"
#include "weft/training/trace_facts.h"
#include "weft/training/training_position.h"

namespace weft {
namespace {

RankOptions rank_options(const TrainingSetup& setup, std::uint32_t rank, Nanoseconds spin,
                         std::function<bool()> background_done) {
  RankOptions options;
  options.clip_gradient = setup.config.optimizer.clip_grad;
  options.stop_requested = setup.stop_requested;
  options.save_requested = setup.options.save_requested;
  options.background_done = std::move(background_done);
  options.spin = spin;
  options.tell_failure = [&setup, rank](std::exception_ptr error) { setup.tell_failure(rank, error); };
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

}  // namespace

RankTrainer::RankTrainer(const TrainingSetup& setup, std::uint32_t rank, Transport& transport,
                         Nanoseconds spin)
    : setup_(setup),
      rank_(rank, setup.plan, setup.stages, setup.optimizer, transport,
            rank_options(setup, rank, spin, [this] { return !saver_ || saver_->idle(); })) {
  try {
    open_data();
  } catch (...) {
    setup_.tell_failure(rank, std::current_exception());
    throw;
  }
}

// Rank 0 may need no data for its stages, but says in checkpoints where they stand.
void RankTrainer::open_data() {
  const bool evaluates = setup_.config.tokens.val_check_interval > 0;
  if (rank_.rank() != 0 && !has_first_stage() && !has_last_stage() && !evaluates) return;
  data_.emplace(setup_.config, setup_.options.sources);
  batches_.emplace(setup_.config, *data_);
}

bool RankTrainer::has_first_stage() const {
  return setup_.plan.schedule.rank_of.front() == rank_.pipeline_rank();
}
bool RankTrainer::has_last_stage() const {
  return setup_.plan.schedule.rank_of.back() == rank_.pipeline_rank();
}

RunResult RankTrainer::run() {
  try {
    const Start start = agree_on_start();
    return start.finished ? finish_again(start) : train(start);
  } catch (const PeerFailure&) {
    throw;  // the rank that knows the cause tells it
  } catch (const TransportError&) {
    throw;  // most likely another rank's end
  } catch (const std::exception& e) {
    setup_.tell_failure(rank_.rank(), std::current_exception());  // before the disk, which may be slow
    note_failure(e.what());
    throw;
  }
}

RunResult RankTrainer::train(const Start& start) {
  open_folder(start);
  log_start();
  load_start(start);
  const NanotronConfig& config = setup_.config;
  const auto last_step = static_cast<std::uint64_t>(config.tokens.train_steps);
  RunResult result;
  result.folder = path_;
  result.exit_reason = "finished";
  steps_ = first_step_ - 1;
  if (has_last_stage()) log_ = std::make_unique<StepLog>(config, path_, steps_);
  if (setup_.options.trace)
    trace_.emplace(rank_, path_, setup_.options.trace_steps, cost_facts(setup_.config));
  if (config.checkpoints.save_initial_state && first_step_ == 1) saver_->begin(0);

  for (std::uint64_t step = first_step_; step <= last_step; ++step) {
    if (trace_) trace_->begin_step(step);
    const Nanoseconds began = now_ns();
    if (batches_) batches_->begin_step(step);
    NoBatches nothing;
    const StepReport& report = rank_.train(step, batches_ ? static_cast<BatchSource&>(*batches_) : nothing);
    steps_ = step;
    const Nanoseconds time = now_ns() - began;
    const std::optional<double> validation = evaluate(step);
    if (log_) log_->step(step, report, rank_.optimizer().learning_rate(step), time, validation);
    if (trace_) trace_->end_step();
    after_step(step, report);
    if (report.stop_requested) {
      result.exit_reason = "stopped";
      if (!saver_->has_begun(step) && step != last_step) saver_->begin(step);
      break;
    }
  }
  if (config.checkpoints.save_final_state && steps_ == last_step && !saver_->has_begun(last_step))
    saver_->begin(last_step);
  saver_->end();

  result.steps = steps_;
  result.weights_sha256 = hash_weights();
  if (trace_) trace_->put_together(*setup_.options.trace);
  if (log_) log_->finish(result);
  if (rank_.rank() == 0 && result.exit_reason == "stopped")
    log::info(fmt::format("stopped after step {}, saved in {}", result.steps, path_.string()));
  return result;
}

RankTrainer::Start RankTrainer::agree_on_start() {
  const ResumeRequest request{setup_.options.run_dir, setup_.options.resume};
  std::string text;
  std::vector<std::string> skipped;
  if (rank_.rank() == 0) {
    const auto point = verified_resume_point(setup_.config, request);
    if (point) require_same_training(*point, setup_.config, setup_.options.sources);
    text += point && point->whole ? 'w' : '-';
    text += point && is_finished(*point, setup_.config) ? 'f' : '-';
    text += run_folder_request(request, point).resuming ? 'r' : '-';
    if (point) text += point->checkpoint.folder.string();
    if (point) skipped = point->skipped;
  }
  text = rank_.broadcast_text(text);
  return {text.substr(3), text[0] == 'w', text[1] == 'f', text[2] == 'r', std::move(skipped)};
}

RunResult RankTrainer::finish_again(const Start& start) {
  const Manifest manifest = read_manifest(start.checkpoint);
  RunResult result;
  result.folder = planned_run_folder(setup_.config, setup_.options.run_dir);
  result.exit_reason = "finished";
  result.steps = manifest.position.step;
  result.weights_sha256 = manifest.weights_sha256;
  if (has_last_stage()) {
    Console console(setup_.config);
    console.say(fmt::format("all {} steps are done already, in {}", setup_.config.tokens.train_steps,
                            start.checkpoint));
    console.say("weights_sha256: " + result.weights_sha256);
  }
  if (rank_.rank() == 0 && !has_result(result.folder)) write_result(result.folder, result);
  return result;
}

// Says which kernels compute (a type without products of its own is slower than the user may expect) and how
// the model is cut.
void RankTrainer::log_start() const {
  if (rank_.rank() != 0) return;
  const cpu::CpuLevel level = cpu::cpu_level();
  std::string kernels = fmt::format("kernels: {}", cpu::name(level));
  if (setup_.config.model.dtype == DType::bfloat16)
    kernels += level == cpu::CpuLevel::amx ? ", bfloat16 products on tiles"
                                           : ", bfloat16 products widened to float32";
  log::info(kernels);
  log::info(fmt::format("layers per stage: {}",
                        fmt::join(layers_per_stage(setup_.config, setup_.plan.schedule.rank_of), " ")));
}

void RankTrainer::open_folder(const Start& start) {
  std::string told;
  if (rank_.rank() == 0) {
    folder_ =
        std::make_unique<RunFolder>(setup_.config, RunFolderRequest{setup_.options.run_dir, start.resuming});
    remove_unfinished(checkpoints_folder(folder_->path(), setup_.config));
    if (setup_.options.trace) std::filesystem::remove_all(trace_parts_folder(folder_->path()));
    std::filesystem::remove(result_file(folder_->path()));  // of the run's last attempt
    replace_file(config_file(folder_->path()), to_yaml(setup_.config));
    told = fmt::format("{:x}\n{}", now_ns(), folder_->path().string());
  }
  told = rank_.broadcast_text(told);
  attempt_ = told.substr(0, told.find('\n'));
  path_ = told.substr(told.find('\n') + 1);
  if (setup_.one_process_per_rank || rank_.rank() == 0)
    log::start(setup_.config.logging.log_level, "", log_file(path_, rank_.rank()).string());
}

void RankTrainer::load_start(const Start& start) {
  for (const std::string& skipped : start.skipped) log::warning("skipped: " + skipped);
  if (start.checkpoint.empty()) {
    if (rank_.rank() == 0 && !setup_.options.resume.empty())
      log::info(fmt::format("no checkpoint in {}: beginning at step 1",
                            checkpoints_folder(path_, setup_.config).string()));
    load_given_weights(setup_.config, rank_.parameters());
    rank_.parameters_changed();
    return open_saver(rank_.rank() == 0 ? given_config_text(setup_.config) : "{}");
  }
  const CheckpointReader reader(start.checkpoint);
  const TrainingPosition& saved = reader.manifest().position;
  std::vector<std::string> names;
  for (std::uint16_t s = 0; s < setup_.plan.parameters.size(); ++s)
    for (const std::string& name : setup_.plan.parameters[s]) names.push_back(name);
  for (const TiedPair& tie : setup_.plan.ties) std::erase(names, tie.name);
  reader.require_model(names);
  open_saver(saved.model.empty() ? "{}" : saved.model);
  if (start.whole) {
    reader.restore(rank_.parameters(), rank_.optimizer().state());
    first_step_ = saved.step + 1;
    saver_->take_as_saved(saved.step);
  } else {
    reader.load_weights(rank_.parameters());
  }
  rank_.parameters_changed();
  if (rank_.rank() != 0) return;
  if (!start.whole) return log::info("beginning at step 1 with the weights of " + start.checkpoint);
  log::info(fmt::format("resuming after step {} from {}", saved.step, start.checkpoint));
  for (const std::string& change : changed_settings(reader.manifest(), setup_.config))
    log::info("changed since that checkpoint: " + change);
  if (!has_same_data(saved, *data_))
    log::warning(fmt::format(
        "step {} read other samples in the checkpoint's run (files, seed, shuffle, sequence_length "
        "or data_stages have changed); training goes on with the data of this configuration",
        saved.step));
}

void RankTrainer::open_saver(std::string model_base) {
  saver_.emplace(rank_, setup_.config, data_ ? &*data_ : nullptr,
                 CheckpointPlace{checkpoints_folder(path_, setup_.config), attempt_, std::move(model_base)},
                 setup_.tell_saving);
}

void RankTrainer::note_failure(const char* what) const noexcept {
  if (path_.empty()) return;
  try {
    if (trace_) trace_->tell_of_parts();
    RunOutcome outcome;
    outcome.steps = steps_;
    outcome.exit_reason = "failed";
    outcome.message = what;  // every rank may come here with the same words
    write_result(path_, outcome);
  } catch (const std::exception&) {
    // the disk may be what failed; the caller passes the cause on
  }
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
  if (saver_->saving() && report.background_done) saver_->end();
  const auto interval = setup_.config.checkpoints.checkpoint_interval;
  const bool due = interval && step % static_cast<std::uint64_t>(*interval) == 0;
  if (due || report.save_requested) saver_->begin(step);
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

}  // namespace weft
