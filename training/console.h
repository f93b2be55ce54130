#pragma once
// What a person sees while a training runs: Nanotron's line per interval, and a progress bar on a terminal.
#include <cstdint>
#include <string>

#include "weft/base/clock.h"
#include "weft/training/config/nanotron_config.h"
#include "weft/training/metrics.h"

namespace weft {

/// Three significant digits and K, M, B, T, P or E for the thousands, as Nanotron writes numbers: `4.1K`,
/// `0.00015`.
[[nodiscard]] std::string human_number(double value);
/// `H:MM:SS`.
[[nodiscard]] std::string human_duration(double seconds);

/// `iteration: 1 / 350 | consumed_tokens: 4.1K | time_per_iteration_ms: 255 | ... | eta: 0:01:29`, without
/// line end. Nanotron's columns, with `per_rank` where it says `per_gpu`.
[[nodiscard]] std::string step_line(const NanotronConfig& config, const StepMetrics& metrics);

/// `[=====>    ] 120/350 loss 2.31 eta 0:01:29`, cut to `width` columns.
[[nodiscard]] std::string progress_text(const NanotronConfig& config, const StepMetrics& metrics,
                                        std::size_t width);

/// Writes step lines to `output`, and a progress bar below them to `errors` where that is a terminal. A
/// reader that stops (a pager, Ctrl-S) does not stop the training: lines wait, the oldest of more than 1 MiB
/// are dropped.
class Console {
 public:
  explicit Console(const NanotronConfig& config, int output = 1, int errors = 2);
  /// Takes the bar away, and gives a slow reader five seconds to take the rest.
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  /// A line when the step is due by logging.iteration_step_info_interval, or the last one; the bar at most
  /// ten times a second.
  void step(const StepMetrics& metrics);
  /// One line of other text.
  void say(const std::string& line);

 private:
  void clear_bar();
  /// Writes what the reader takes within `patience`.
  void flush(Nanoseconds patience);

  const NanotronConfig config_;
  int output_;
  int errors_;
  std::string waiting_;  // for output
  bool has_bar_;
  bool bar_is_drawn_ = false;
  Nanoseconds last_drawn_ = 0;
};

}  // namespace weft
