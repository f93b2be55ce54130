#pragma once
// What the last stage's rank reports about each step: metrics.jsonl, TensorBoard events, the console,
// result.json.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "weft/actors/rank.h"
#include "weft/base/clock.h"
#include "weft/scheduling/orders/schedule.h"
#include "weft/training/config/nanotron_config.h"

namespace weft {

/// How a training ended: what result.json holds.
struct RunOutcome {
  std::uint64_t steps = 0;     ///< the last step done
  std::string exit_reason;     ///< "finished", "stopped" or "failed"
  std::string message;         ///< of a failure: which rank, and what happened
  std::string weights_sha256;  ///< see model/weights/weights_hash.h
};

/// Writes result.json into a run's folder, which is made if it is missing. Throws Error.
void write_result(const std::filesystem::path& run, const RunOutcome& outcome);

/// True when a run's folder has a result.json that tells of no failure.
[[nodiscard]] bool has_result(const std::filesystem::path& run);

class StepLog {
 public:
  /// Opens the files in the run's folder. What they say of steps after `steps_done` (a resume from an earlier
  /// checkpoint) is void: metrics.jsonl is cut, TensorBoard's readers are told. Throws Error, naming the
  /// file.
  StepLog(const NanotronConfig& config, const std::filesystem::path& run, std::uint64_t steps_done);
  ~StepLog();

  /// One training step that took `time`. Throws Error when the disk is full.
  void step(std::uint64_t step, const StepReport& report, double learning_rate, Nanoseconds time,
            std::optional<double> validation_loss);
  /// The end: result.json, and the hash as the console's last line.
  void finish(const RunOutcome& outcome);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
