#pragma once
// A pipeline for programs that embed weft: stages, schedule, optimizer and transport tied together.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "weft/actors/optimizer.h"
#include "weft/actors/rank.h"
#include "weft/actors/stage.h"

namespace weft {

/// What a pipeline is made of.
struct PipelineConfig {
  std::string schedule = "1f1b";  ///< any name of scheduling/schedule.h
  std::uint32_t ranks = 1;
  std::uint32_t chunks = 0;  ///< stages per rank, 0 = what the schedule needs
  std::uint32_t microbatches = 1;
  StageFactory stages;
  OptimizerFactory optimizer;
  std::optional<double> clip_gradient;  ///< largest 2-norm of all gradients
  /// The policy of one rank, for programs that bring their own; empty for the schedule's. `max_in_flight`
  /// then bounds its slots.
  std::function<std::unique_ptr<Policy>(const Schedule&, std::uint32_t rank)> policy;
  std::uint32_t max_in_flight =
      0;  ///< most (stage, micro-batch) pairs a rank may hold, 0 = the schedule's own peak
};

/// Under `weft launch` (WEFT_RANK is set) this process is one rank and the messages go over UCX; otherwise
/// all ranks are threads of this process. Every process makes the same calls with the same data. A pipeline
/// that stands still (a policy that never names some op) is ended by `weft launch`; threads wait for ever.
class Pipeline {
 public:
  /// Plans, takes all memory, makes the stages. Throws ScheduleError, ConfigError, TransportError, Error.
  explicit Pipeline(PipelineConfig config);
  /// Leaves in order; a pipeline that failed has ended already.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// One training step on `microbatches` inputs for the first stage and targets for the last. Throws what
  /// stages throw, NonFiniteError, PeerFailure; after an exception the pipeline is dead.
  StepReport step(std::span<const TensorList> inputs, std::span<const TensorList> targets);
  /// Mean loss without training; in the process of the last stage, 0 elsewhere.
  double evaluate(std::span<const TensorList> inputs, std::span<const TensorList> targets);

  [[nodiscard]] const PipelinePlan& plan() const noexcept;
  /// The number of this process among the ranks, 0 when all ranks are threads of it.
  [[nodiscard]] std::uint32_t rank() const noexcept;
  /// True where the last stage lives, whose process knows evaluation losses.
  [[nodiscard]] bool has_last_stage() const noexcept;
  /// The parameters that live in this process, ranks ascending. Between steps only.
  [[nodiscard]] std::vector<Parameter*> parameters();

 private:
  class Backend;
  class ThreadBackend;
  class ProcessBackend;
  std::unique_ptr<Backend> backend_;
};

}  // namespace weft
