#include "weft/training/step_log.h"

#include <nlohmann/json.hpp>

#include <cstdio>
#include <fstream>

#include "weft/model/weights/durable_file.h"
#include "weft/training/model_flops.h"
#include "weft/training/trainer.h"

namespace weft {

struct StepLog::Impl {
  NanotronConfig config;
  std::filesystem::path run;
  std::ofstream metrics;
};

StepLog::StepLog(const NanotronConfig& config, const std::filesystem::path& run, std::uint64_t)
    : impl_(std::make_unique<Impl>(Impl{config, run, std::ofstream(metrics_file(run), std::ios::app)})) {}
StepLog::~StepLog() = default;

void StepLog::step(std::uint64_t step, const StepReport& report, double learning_rate, Nanoseconds time) {
  nlohmann::ordered_json line;
  line["step"] = step;
  line["loss"] = report.loss;
  line["grad_norm"] = report.gradient_norm;
  line["lr"] = learning_rate;
  line["step_ms"] = static_cast<double>(time) * 1e-6;
  line["model_tflops"] = step_flops(impl_->config) / static_cast<double>(time) * 1e-3;
  for (const RankStatistics& rank : report.ranks) {
    line["bubble"].push_back(rank.bubble);
    line["peak_in_flight"].push_back(rank.peak_in_flight);
    line["peak_activation_bytes"].push_back(rank.peak_activation_bytes);
  }
  impl_->metrics << line.dump() << std::endl;
  if ((step - 1) % static_cast<std::uint64_t>(impl_->config.logging.iteration_step_info_interval) == 0)
    std::printf("iteration %lu loss %.4f norm %.3f lr %.2e %.1f ms\n", static_cast<unsigned long>(step),
                report.loss, report.gradient_norm, learning_rate, static_cast<double>(time) * 1e-6);
  std::fflush(stdout);
}

void StepLog::finish(const RunResult& result) {
  nlohmann::ordered_json json;
  json["steps"] = result.steps;
  json["exit_reason"] = result.exit_reason;
  json["weights_sha256"] = result.weights_sha256;
  replace_file(result_file(impl_->run), json.dump(2) + "\n");
  std::printf("weights_sha256 %s\n", result.weights_sha256.c_str());
}

}  // namespace weft
