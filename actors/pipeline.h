#pragma once
// A pipeline for programs that embed weft: stages, schedule, optimizer and transport tied together.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/actors/optimizer.h"
#include "weft/actors/rank.h"
#include "weft/actors/stage.h"
#include "weft/scheduling/simulation/trace.h"

namespace weft {

/// What a pipeline is made of.
struct PipelineConfig {
  std::string schedule = "1f1b";  ///< any name of scheduling/orders/schedule.h
  std::uint32_t ranks = 1;
  std::uint32_t chunks = 0;  ///< stages per rank, 0 = what the schedule needs
  std::uint32_t microbatches = 1;
  StageFactory stages;
  OptimizerFactory optimizer;
  std::optional<double> clip_gradient;  ///< largest 2-norm of all gradients
  /// `ucx`: this process is one rank that a launcher started; `inproc`: all ranks are threads of this
  /// process; `auto`: ucx where a launcher started this process.
  std::string transport = "auto";
  /// Compute threads for the ops of one rank, told as MicrobatchContext::threads; 0: this host's usable cores
  /// shared among its ranks.
  std::uint32_t threads = 0;
  /// The policy of one rank, for programs that bring their own; empty for the schedule's. It is wrapped so
  /// that W stays in micro-batch order.
  std::function<std::unique_ptr<Policy>(const Schedule&, std::uint32_t rank)> policy;
  /// Most (stage, micro-batch) pairs a rank may hold. With a policy of one's own all slots and message
  /// buffers are made for so many, in whatever state from F to W they are; 0: for what the schedule's own
  /// order needs, where 1F1B, for example, has one weight-work slot. Without one, a schedule that needs more
  /// is refused.
  std::uint32_t max_in_flight = 0;
};

/// One parameter of the model, brought to the first process.
struct GatheredParameter {
  std::string name;
  DType dtype = DType::float32;
  Shape shape;
  std::vector<std::byte> bytes;
};

/// Under `weft launch` (WEFT_RANK is set) this process is one rank and the messages go over UCX; otherwise
/// all ranks are threads of this process. Every process makes the same calls with the same data. A pipeline
/// that stands still (a policy that never names some op, a completion that never comes) is ended by
/// `weft launch`; threads wait for ever.
///
/// Every function but the constructor and those that only look throws what stages, policy and optimizer
/// throw, ScheduleError for a policy that breaks a rule, NonFiniteError, PeerFailure, TransportError. After
/// such an exception the pipeline is dead: every later call throws Error with the first cause.
class Pipeline {
 public:
  /// Plans, takes all memory, makes the stages. Throws ScheduleError, ConfigError, TransportError, Error.
  explicit Pipeline(PipelineConfig config);
  /// Leaves in order; a pipeline that failed has ended already.
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// One training step on `microbatches` inputs for the first stage and targets for the last. Throws Error,
  /// and goes on, when there are more or fewer.
  StepReport step(std::span<const TensorList> inputs, std::span<const TensorList> targets);
  /// Mean loss without training; in the process of the last stage, 0 elsewhere.
  double evaluate(std::span<const TensorList> inputs, std::span<const TensorList> targets);
  /// The number of the last step, 0 before the first.
  [[nodiscard]] std::uint64_t steps() const noexcept;
  /// The next step will be number `step` + 1: after a resume.
  void continue_after(std::uint64_t step);

  [[nodiscard]] const PipelinePlan& plan() const noexcept;
  /// The number of this process among the ranks, 0 when all ranks are threads of it.
  [[nodiscard]] std::uint32_t rank() const noexcept;
  /// True where the last stage lives, whose process knows evaluation losses.
  [[nodiscard]] bool has_last_stage() const noexcept;

  /// The parameters that live in this process, ranks ascending. Between steps only.
  [[nodiscard]] std::vector<Parameter*> parameters();
  /// The optimizer's state of these parameters.
  [[nodiscard]] std::vector<OptimizerState> optimizer_state();
  /// To be called after parameters of this process were written from outside.
  void parameters_changed();
  /// The values of all parameters in the order of the model, a tied weight once, in the first process; empty
  /// elsewhere. All processes call it.
  [[nodiscard]] std::vector<GatheredParameter> gather_parameters();

  /// One string of every process, in the order of the ranks, in the first process; empty elsewhere. All
  /// processes call it.
  [[nodiscard]] std::vector<std::string> gather(const std::string& mine);
  /// The first process's string (at most 64 MiB), in all. All processes call it.
  [[nodiscard]] std::string broadcast(const std::string& text);

  /// From now on what the ranks execute is recorded.
  void start_trace();
  /// Ends that and returns the events of all ranks in the first process, an empty list elsewhere; for
  /// to_chrome_trace(). All processes call it.
  [[nodiscard]] std::vector<TraceEvent> stop_trace();

 private:
  class Backend;
  class ThreadBackend;
  class ProcessBackend;
  std::unique_ptr<Backend> backend_;
};

}  // namespace weft
