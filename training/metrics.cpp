#include "weft/training/metrics.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <fstream>

namespace weft {
namespace {

constexpr std::string_view line_start = "{\"step\": ";

std::string number(double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; }

template <class Value>
std::string list(const std::vector<Value>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

std::string list(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(number(value));
  return list(texts);
}

/// Bytes at the front of the file that hold whole lines of steps up to `last_step`.
std::uint64_t kept_bytes(const std::filesystem::path& path, std::uint64_t last_step) {
  std::ifstream file(path, std::ios::binary);
  std::uint64_t kept = 0;
  for (std::string line; std::getline(file, line) && !file.eof(); kept += line.size() + 1) {
    std::uint64_t step = 0;
    if (!line.starts_with(line_start)) break;
    const char* end = line.data() + line.size();
    if (std::from_chars(line.data() + line_start.size(), end, step).ec != std::errc() || step > last_step)
      break;
  }
  return kept;
}

}  // namespace

std::string to_json_line(const StepMetrics& m) {
  std::string line = fmt::format("{}{}", line_start, m.step);
  const auto add = [&line](std::string_view key, const std::string& value) {
    line += fmt::format(", \"{}\": {}", key, value);
  };
  add("loss", number(m.loss));
  add("grad_norm", number(m.grad_norm));
  add("lr", number(m.lr));
  add("tokens", fmt::format("{}", m.tokens));
  add("step_ms", number(m.step_ms));
  add("tokens_per_sec", number(m.tokens_per_sec));
  add("model_tflops", number(m.model_tflops));
  if (m.val_loss) add("val_loss", number(*m.val_loss));
  add("bubble", list(m.bubble));
  add("peak_in_flight", list(m.peak_in_flight));
  add("peak_activation_bytes", list(m.peak_activation_bytes));
  add("message_bytes", list(m.message_bytes));
  line += "}\n";
  return line;
}

MetricsFile::MetricsFile(std::filesystem::path path, std::uint64_t last_step) : file_(path) {
  const std::uint64_t kept = kept_bytes(path, last_step);
  if (kept < file_.size()) file_.truncate(kept);
}

void MetricsFile::write(const StepMetrics& metrics) { file_.append(to_json_line(metrics)); }

}  // namespace weft
