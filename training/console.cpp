#include "weft/training/console.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "weft/base/terminal.h"

namespace weft {
namespace {

/// Whether `descriptor` takes some bytes within `patience`.
bool has_room(int descriptor, Nanoseconds patience) {
  ::pollfd wanted{descriptor, POLLOUT, 0};
  return ::poll(&wanted, 1, static_cast<int>(patience / 1'000'000)) == 1;
}

/// Bytes written without waiting, -1 when the descriptor has failed. Few at a time, so that a pipe or
/// terminal with room for some does not block on the rest.
ssize_t write_some(int descriptor, std::string_view text) {
  constexpr std::size_t most = 256;
  const ssize_t written = ::write(descriptor, text.data(), std::min(text.size(), most));
  return written < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : written;
}

constexpr std::uint32_t usual_columns = 80;

/// Writes all of `text` if the terminal takes anything at all now.
bool draw(int descriptor, std::string_view text) {
  if (!has_room(descriptor, 0)) return false;
  while (!text.empty()) {
    const ssize_t written = write_some(descriptor, text);
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

double seconds_left(const NanotronConfig& config, const StepMetrics& metrics) {
  const auto all = static_cast<double>(config.tokens.train_steps);
  return std::max(0.0, all - static_cast<double>(metrics.step)) * metrics.step_ms / 1000;
}

}  // namespace

std::string human_number(double value) {
  if (!(std::abs(value) >= 1) || std::isinf(value)) return fmt::format("{:.3g}", value);
  constexpr std::string_view suffixes = " KMBTPE";
  double rounded = std::strtod(fmt::format("{:.3g}", value).c_str(), nullptr);
  std::size_t thousands = 0;
  while (std::abs(rounded) >= 1000 && thousands + 1 < suffixes.size()) {
    rounded /= 1000;
    ++thousands;
  }
  std::string text = fmt::format("{:f}", rounded);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  if (thousands > 0) text += suffixes[thousands];
  return text;
}

std::string human_duration(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e15));
  return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

std::string step_line(const NanotronConfig& config, const StepMetrics& m) {
  const auto ranks = static_cast<double>(config.parallelism.pp);
  const auto batch = static_cast<double>(config.tokens.samples_per_step() * config.tokens.sequence_length);
  std::string line = fmt::format("iteration: {} / {}", m.step, config.tokens.train_steps);
  const auto add = [&line](std::string_view name, const std::string& value) {
    line += fmt::format(" | {}: {}", name, value);
  };
  add("consumed_tokens", human_number(static_cast<double>(m.tokens)));
  add("time_per_iteration_ms", human_number(m.step_ms));
  add("tokens_per_sec", human_number(m.tokens_per_sec));
  add("tokens_per_sec_per_rank", human_number(m.tokens_per_sec / ranks));
  add("global_batch_size", human_number(batch));
  add("grad_norm", human_number(m.grad_norm));
  add("lm_loss", human_number(m.loss));
  add("lr", human_number(m.lr));
  add("model_tflops_per_rank", human_number(m.model_tflops / ranks));
  add("eta", human_duration(seconds_left(config, m)));
  return line;
}

std::string progress_text(const NanotronConfig& config, const StepMetrics& m, std::size_t width) {
  const auto all = static_cast<std::uint64_t>(config.tokens.train_steps);
  const std::string numbers = fmt::format("{}/{} loss {} eta {}", m.step, all, human_number(m.loss),
                                          human_duration(seconds_left(config, m)));
  constexpr std::size_t frame = 3;  // [, ] and a space
  constexpr std::size_t longest_bar = 40;
  if (width < numbers.size() + frame + 1) return numbers.substr(0, width);
  const std::size_t length = std::min(longest_bar, width - numbers.size() - frame);
  const auto done = static_cast<std::size_t>(std::min(m.step, all) * length / all);
  std::string bar(done, '=');
  if (done < length) bar += '>';
  bar.resize(length, ' ');
  return fmt::format("[{}] {}", bar, numbers);
}

Console::Console(const NanotronConfig& config, int output, int errors)
    : config_(config), output_(output), errors_(errors), has_bar_(is_smart_terminal(errors)) {}

Console::~Console() {
  constexpr Nanoseconds patience = 5'000'000'000;
  clear_bar();
  flush(patience);
}

void Console::step(const StepMetrics& metrics) {
  const auto interval = static_cast<std::uint64_t>(config_.logging.iteration_step_info_interval);
  const bool is_last = metrics.step == static_cast<std::uint64_t>(config_.tokens.train_steps);
  if ((metrics.step - 1) % interval == 0 || is_last) say(step_line(config_, metrics));
  if (!has_bar_ || is_last) return;
  constexpr Nanoseconds pause = 100'000'000;
  const Nanoseconds now = now_ns();
  if (bar_is_drawn_ && now - last_drawn_ < pause) return;
  last_drawn_ = now;
  clear_bar();
  // The last column stays free: some terminals break the line there.
  bar_is_drawn_ = draw(
      errors_,
      fmt::format("\r{}", progress_text(config_, metrics, terminal_columns(errors_, usual_columns) - 1)));
}

void Console::say(const std::string& line) {
  constexpr std::size_t most_waiting = 1 << 20;
  clear_bar();
  waiting_ += line;
  waiting_ += '\n';
  if (waiting_.size() > most_waiting)
    waiting_.erase(0, waiting_.find('\n', waiting_.size() - most_waiting) + 1);
  flush(0);
}

void Console::flush(Nanoseconds patience) {
  const Nanoseconds end = now_ns() + patience;
  while (!waiting_.empty() && has_room(output_, std::max<Nanoseconds>(0, end - now_ns()))) {
    const ssize_t written = write_some(output_, waiting_);
    if (written < 0) return waiting_.clear();
    waiting_.erase(0, static_cast<std::size_t>(written));
  }
}

void Console::clear_bar() {
  if (!bar_is_drawn_) return;
  draw(errors_, fmt::format("\r{:{}}\r", "", terminal_columns(errors_, usual_columns) - 1));
  bar_is_drawn_ = false;
}

}  // namespace weft
