#pragma once
// One rank with everything it owns: memory, stages, mailbox, actor, optimizer. A training step of the whole
// pipeline is the same call on every rank.
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "weft/actors/event_loop.h"
#include "weft/actors/group.h"
#include "weft/actors/optimizer.h"
#include "weft/actors/pipeline_plan.h"
#include "weft/actors/stage_actor.h"
#include "weft/tensor/queue.h"
#include "weft/transport/mesh.h"

namespace weft {

/// What every rank of the pipeline measured in a step, the same on all ranks: [pipeline rank].
struct RankStatistics {
  double bubble = 0;  ///< idle share between a rank's first and last op
  double busy_ms = 0;
  std::uint64_t peak_activation_bytes = 0;
  std::uint64_t message_bytes = 0;  ///< activations and gradients sent to other ranks
  std::uint32_t peak_in_flight = 0;
};

/// The outcome of one training step, the same on all ranks.
struct StepReport {
  std::vector<double> losses;   ///< [micro-batch], before the update
  double loss = 0;              ///< their mean, summed in micro-batch order
  double gradient_norm = 0;     ///< 2-norm over all parameters, a tied weight once, before clipping
  bool stop_requested = false;  ///< rank 0 was asked to stop the run after this step
  bool save_requested = false;  ///< rank 0 was asked to save after this step
  bool background_done = true;  ///< every rank said so: see RankOptions
  std::vector<RankStatistics> ranks;
};

/// How a rank runs.
struct RankOptions {
  std::optional<double>
      clip_gradient;  ///< largest 2-norm; gradients are scaled by min(1, clip / (norm + 1e-6))
  // Questions that are answered once a step and put into the report, so that all ranks act on the same
  // answer.
  std::function<bool()> stop_requested;   ///< asked on rank 0
  std::function<bool()> save_requested;   ///< asked on rank 0
  std::function<bool()> background_done;  ///< asked on every rank: has work beside the steps ended here?
  Nanoseconds spin = 20'000;              ///< look for messages so long before blocking
  std::uint32_t threads = 1;              ///< MicrobatchContext::threads of every op
  Device device;                          ///< where the rank computes and its memory lies
  /// The policy of one rank; empty for the schedule's own. It is wrapped so that W stays in micro-batch
  /// order.
  std::function<std::unique_ptr<Policy>(const Schedule&, std::uint32_t rank)> policy;
  /// Hears why a rank cannot be made, before what was made of it is destroyed.
  std::function<void(std::exception_ptr)> tell_failure;
};

/// After the first exception of any of its functions a rank is dead: every later call throws Error with that
/// cause.
class Rank {
 public:
  /// Takes all memory and makes this rank's stages with their initial values. `rank` is its number in the
  /// world, which the transport connects: replicas of the plan's pipeline, as Mesh counts them. `plan` and
  /// `transport` outlive the rank. Throws DeviceError when this build or machine lacks the device, Error when
  /// the world is not made of whole pipelines, memory is short or a stage's gradients are scattered.
  Rank(std::uint32_t rank, const PipelinePlan& plan, const StageFactory& stages,
       const OptimizerFactory& optimizer, Transport& transport, RankOptions options);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  /// One training step: every op, tied gradients, the norm, the update. Runs the loop until it is done.
  /// Throws NonFiniteError, PeerFailure, TransportError, and what stages throw.
  const StepReport& train(std::uint64_t step, BatchSource& data);
  /// The same as a coroutine, for hand-stepped loops; report() holds the outcome.
  Task<void> train_step(std::uint64_t step, BatchSource& data);
  /// Of the last training step.
  [[nodiscard]] const StepReport& report() const noexcept { return report_; }

  /// Forward only: the mean loss on the last stage's rank, 0 elsewhere. `pass` counts evaluations over the
  /// whole run.
  double evaluate(std::uint64_t pass, BatchSource& data);
  Task<double> evaluate_pass(std::uint64_t pass, BatchSource& data);

  /// Brings one string of each rank of the pipeline to its first (empty result elsewhere).
  std::vector<std::string> gather_text(const std::string& mine);
  /// Gives the first rank's string to all of the pipeline.
  std::string broadcast_text(const std::string& text);

  /// In the world.
  [[nodiscard]] std::uint32_t rank() const noexcept { return rank_; }
  /// What the plan and its schedule call this rank.
  [[nodiscard]] std::uint32_t pipeline_rank() const noexcept { return mesh_.pipeline_rank_of(rank_); }
  [[nodiscard]] const PipelinePlan& plan() const noexcept { return plan_; }
  /// This rank's parameters in the order of the model.
  [[nodiscard]] std::span<Parameter* const> parameters() const noexcept { return parameters_; }
  /// All gradients of each of this rank's stages, ascending: one range a stage, see gradient_range.h.
  [[nodiscard]] std::span<const std::span<float>> gradient_ranges() const noexcept {
    return gradient_ranges_;
  }
  [[nodiscard]] Optimizer& optimizer() noexcept { return *optimizer_; }
  /// To be called after parameters were written from outside.
  void parameters_changed();
  [[nodiscard]] Queue& queue() noexcept { return *queue_; }
  [[nodiscard]] EventLoop& loop() noexcept { return loop_; }
  [[nodiscard]] StageActor& actor() noexcept { return *actor_; }
  [[nodiscard]] const StepRecord& record() const noexcept { return actor_->record(); }

 private:
  void make(const StageFactory& stages, Transport& transport);
  Task<void> exchange_tied();
  Task<void> agree();
  void write_part();
  void read_agreement();
  Parameter& parameter(std::uint16_t stage, std::uint32_t index);
  [[nodiscard]] bool owns(std::uint16_t stage) const noexcept {
    return plan_.schedule.rank_of[stage] == pipeline_rank();
  }

  std::uint32_t rank_;
  const PipelinePlan& plan_;
  Mesh mesh_;
  RankOptions options_;
  EventLoop loop_;
  RankState view_;
  std::unique_ptr<Queue> queue_;
  Arena arena_;
  std::vector<std::unique_ptr<Stage>> stages_;
  std::vector<Parameter*> parameters_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<Mailbox> mailbox_;
  std::unique_ptr<StageActor> actor_;
  std::unique_ptr<Group> pipeline_;  // of this replica
  std::uint64_t step_ = 0;
  StepReport report_;
  std::vector<std::byte*> tie_buffers_;  // [tie], where the first use is here and the second is not
  std::vector<SideChannel::Expectation> tied_arrivals_;  // [tie], where one use is here and the other is not
  std::vector<std::byte> part_;                          // this rank's share of the agreement
  std::vector<std::vector<std::byte>> parts_;            // all shares, on rank 0
  std::vector<std::byte> agreement_;                     // what rank 0 says
  std::vector<std::vector<double>> squares_;             // [stage][parameter], on rank 0
  std::vector<std::span<float>> gradient_ranges_;        // [own stage]
  std::vector<std::vector<std::span<const float>>> gradients_;  // [own stage][parameter]
  std::vector<double> own_squares_;                             // of one stage, [parameter]
};

}  // namespace weft
