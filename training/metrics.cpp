#include "weft/training/metrics.h"

#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>

namespace weft {
namespace {

constexpr std::string_view line_start = "{\"step\":";

/// Bytes at the front of the file that hold whole lines of steps up to `last_step`.
std::uint64_t kept_bytes(const std::filesystem::path& path, std::uint64_t last_step) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t kept = 0;
  for (std::string line; std::getline(file, line) && !file.eof(); kept += line.size() + 1) {
    std::uint64_t step = 0;
    if (!line.starts_with(line_start)) break;
    const std::size_t digits = line.find_first_not_of(' ', line_start.size());
    if (digits == std::string::npos) break;
    const auto parsed = std::from_chars(line.data() + digits, line.data() + line.size(), step);
    if (parsed.ec != std::errc() || step > last_step) break;
  }
  return kept;
}

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  nlohmann::ordered_json line = {{"step", m.step},
                                 {"loss", m.loss},
                                 {"grad_norm", m.grad_norm},
                                 {"lr", m.lr},
                                 {"tokens", m.tokens},
                                 {"step_ms", m.step_ms},
                                 {"tokens_per_sec", m.tokens_per_sec},
                                 {"model_tflops", m.model_tflops}};
  if (m.val_loss) line["val_loss"] = *m.val_loss;
  line["bubble"] = m.bubble;
  line["peak_in_flight"] = m.peak_in_flight;
  line["peak_activation_bytes"] = m.peak_activation_bytes;
  line["message_bytes"] = m.message_bytes;
  return line.dump() + "\n";
}

MetricsFile::MetricsFile(std::filesystem::path path, std::uint64_t last_step) : file_(path) {
  const std::uint64_t kept = kept_bytes(path, last_step);
  if (kept < file_.size()) file_.truncate(kept);
}

void MetricsFile::write(const StepMetrics& metrics) { file_.append(to_json_line(metrics)); }

}  // namespace weft
