#pragma once
// metrics.jsonl: one JSON object a step.
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "weft/base/files/appended_file.h"

namespace weft {

/// What is known of one training step.
struct StepMetrics {
  std::uint64_t step = 0;
  double loss = 0;           ///< before the update
  double grad_norm = 0;      ///< before clipping
  double lr = 0;             ///< the one used
  std::uint64_t tokens = 0;  ///< in all so far
  double step_ms = 0;
  double tokens_per_sec = 0;
  std::optional<double> val_loss;  ///< of the evaluation after this step, where there was one
  double model_tflops = 0;         ///< model FLOPs per second of all ranks together, in 10^12
  // One value a rank, in rank order.
  std::vector<double> bubble;
  std::vector<std::uint32_t> peak_in_flight;
  std::vector<std::uint64_t> peak_activation_bytes;
  std::vector<std::uint64_t> message_bytes;  ///< activations and gradients sent to other ranks
};

/// One line with its end. Floats read back to the same bits; one that is not finite, which JSON cannot say,
/// is null.
[[nodiscard]] std::string to_json_line(const StepMetrics& metrics);

/// The file, open for appending.
class MetricsFile {
 public:
  /// Makes the file, or keeps its lines up to `last_step` and cuts off the rest: steps that a resumed run
  /// does again, and half a line of a crash. Throws Error, naming the file.
  explicit MetricsFile(std::filesystem::path path, std::uint64_t last_step = 0);
  /// Appends one line, whole or not at all. Throws Error, naming the file, on a full disk.
  void write(const StepMetrics& metrics);

 private:
  AppendedFile file_;
};

}  // namespace weft
