#pragma once
// The trace of a training.
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "weft/actors/rank.h"
#include "weft/base/files/appended_file.h"
#include "weft/scheduling/simulation/chrome_trace.h"
#include "weft/training/trace_steps.h"

namespace weft {

/// `trace-parts`, where the ranks of a run that is traced write: `rank-NNNN.json`, each a trace that can be
/// opened, also when the run was killed.
[[nodiscard]] std::filesystem::path trace_parts_folder(const std::filesystem::path& run);

/// One rank's side. What is recorded goes to a part of the rank's own after every step, so that memory is
/// needed for one step only; at the end the parts become one file.
class RunTrace {
 public:
  /// Begins a new part in the folder of the run, on its ranks. `rank` outlives the trace. Throws Error.
  RunTrace(Rank& rank, std::filesystem::path run, TraceSteps steps, const TraceFacts& facts);
  ~RunTrace();
  RunTrace(const RunTrace&) = delete;
  RunTrace& operator=(const RunTrace&) = delete;

  /// From now on events are of this step, and of evaluations after it.
  void begin_step(std::uint64_t step);
  void end_step();
  /// Writes `file` (a bare name lies in the run's folder) on rank 0 from the parts of all ranks, piece by
  /// piece, and removes them. All ranks call it. Throws CheckpointError, Error.
  void put_together(const std::string& file);
  /// Says where the parts lie, for a run that fails.
  void tell_of_parts() const;

 private:
  [[nodiscard]] std::vector<std::uint64_t> sizes_of_parts();

  Rank& rank_;
  std::filesystem::path run_;
  TraceSteps steps_;
  std::filesystem::path path_;
  ChromeTraceLines lines_;
  AppendedFile part_;
  std::vector<TraceEvent> events_;
};

}  // namespace weft
