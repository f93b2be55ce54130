#include "weft/training/step_log.h"

#include <fmt/core.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "weft/base/error.h"
#include "weft/base/files/durable_file.h"
#include "weft/training/console.h"
#include "weft/training/metrics.h"
#include "weft/training/model_flops.h"
#include "weft/training/run_folder.h"
#include "weft/training/tensorboard.h"

namespace weft {

struct StepLog::Impl {
  Impl(const NanotronConfig& the_config, const std::filesystem::path& run, std::uint64_t steps_done)
      : config(the_config),
        folder(run),
        metrics(metrics_file(run), steps_done),
        tensorboard(run, steps_done + 1),
        console(config) {}
  NanotronConfig config;
  std::filesystem::path folder;
  MetricsFile metrics;
  TensorBoardFile tensorboard;
  Console console;
  StepMetrics line;
};

StepLog::StepLog(const NanotronConfig& config, const std::filesystem::path& run, std::uint64_t steps_done)
    : impl_(std::make_unique<Impl>(config, run, steps_done)) {}
StepLog::~StepLog() = default;

void StepLog::step(std::uint64_t step, const StepReport& report, double learning_rate, Nanoseconds time,
                   std::optional<double> validation_loss) {
  const double seconds = static_cast<double>(time) * 1e-9;
  const auto tokens = static_cast<std::uint64_t>(impl_->config.tokens.samples_per_step() *
                                                 impl_->config.tokens.sequence_length);
  StepMetrics& line = impl_->line;
  line.step = step;
  line.loss = report.loss;
  line.grad_norm = report.gradient_norm;
  line.lr = learning_rate;
  line.tokens = step * tokens;
  line.step_ms = seconds * 1e3;
  line.tokens_per_sec = static_cast<double>(tokens) / seconds;
  line.model_tflops = step_flops(impl_->config) / seconds * 1e-12;
  line.val_loss = validation_loss;
  line.bubble.clear();
  line.peak_in_flight.clear();
  line.peak_activation_bytes.clear();
  line.message_bytes.clear();
  for (const RankStatistics& rank : report.ranks) {
    line.bubble.push_back(rank.bubble);
    line.peak_in_flight.push_back(rank.peak_in_flight);
    line.peak_activation_bytes.push_back(rank.peak_activation_bytes);
    line.message_bytes.push_back(rank.message_bytes);
  }
  impl_->metrics.write(line);
  impl_->tensorboard.write(line);
  impl_->console.step(line);
  if (validation_loss)
    impl_->console.say(fmt::format("validation after iteration {}: loss {:.4f}", step, *validation_loss));
}

void StepLog::finish(const RunOutcome& outcome) {
  write_result(impl_->folder, outcome);
  impl_->console.say("weights_sha256: " + outcome.weights_sha256);
}

void write_result(const std::filesystem::path& run, const RunOutcome& outcome) {
  nlohmann::ordered_json json;
  json["steps"] = outcome.steps;
  json["exit_reason"] = outcome.exit_reason;
  if (!outcome.message.empty()) json["message"] = outcome.message;
  if (!outcome.weights_sha256.empty()) json["weights_sha256"] = outcome.weights_sha256;
  std::error_code error;
  std::filesystem::create_directories(run, error);
  if (error) throw Error(run.string() + ": cannot be made: " + error.message());
  // a message may quote bytes of a file
  replace_file(result_file(run), json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
}

bool has_result(const std::filesystem::path& run) {
  std::ifstream file(result_file(run));
  const auto json = nlohmann::json::parse(file, nullptr, false);
  return json.is_object() && json.contains("exit_reason") && json["exit_reason"] != "failed";
}

}  // namespace weft
