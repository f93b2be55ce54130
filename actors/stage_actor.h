#pragma once
// The actor of one rank: asks its policy which awaited message to work on next, and does so.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/actors/batch_source.h"
#include "weft/actors/mailbox.h"
#include "weft/actors/pipeline_plan.h"
#include "weft/actors/stage.h"
#include "weft/actors/task.h"
#include "weft/scheduling/policy.h"
#include "weft/scheduling/simulation/trace.h"
#include "weft/tensor/queue.h"

namespace weft {

/// Hears what a rank is doing, for heartbeats. Called between ops; must not throw.
class ActorObserver {
 public:
  virtual ~ActorObserver() = default;
  virtual void working(std::uint64_t ops_done, const Op& op) noexcept = 0;
  virtual void waiting(std::uint64_t ops_done, const char* what) noexcept = 0;
  /// The step's ops and exchanges are done: what follows (update, data, checkpoints) may take its time.
  virtual void outside() noexcept = 0;
};

/// What a rank measured in one step.
struct StepRecord {
  std::vector<double> losses;  ///< [micro-batch], on the last stage's rank
  Nanoseconds busy = 0;        ///< time inside ops
  Nanoseconds first_start = 0;
  Nanoseconds last_end = 0;
  std::uint32_t peak_in_flight = 0;
  std::uint64_t peak_activation_bytes = 0;

  /// Idle share of the time from the first op's start to the last op's end.
  [[nodiscard]] double bubble() const noexcept {
    const auto span = static_cast<double>(last_end - first_start);
    return span > 0 ? 1.0 - static_cast<double>(busy) / span : 0.0;
  }
};

class StageActor {
 public:
  /// `stages`: this rank's, ascending, allocated. `arena`, on the queue's device, has the slots and workspace
  /// of plan.memory(rank) free.
  StageActor(std::uint32_t rank, const PipelinePlan& plan, std::span<const std::unique_ptr<Stage>> stages,
             std::unique_ptr<Policy> policy, Mailbox& mailbox, RankState& view, Arena& arena, Queue& queue,
             std::uint32_t threads);

  /// Runs every op of this rank in one step. Throws what a stage throws, NonFiniteError for a loss that is
  /// not finite, ScheduleError for a policy that names an op whose inputs are not there or exceeds the slots.
  Task<void> run_step(std::uint64_t step, Phase phase, BatchSource& data);

  [[nodiscard]] const StepRecord& record() const noexcept { return record_; }
  /// From now on events are appended to `events` (null: no longer).
  void trace(std::vector<TraceEvent>* events) noexcept;
  /// Adds the update of the current step to the trace.
  void trace_update(Nanoseconds start, Nanoseconds end);
  void observe(ActorObserver* observer) noexcept { observer_ = observer; }
  /// Tells the observer that this rank has run its ops and waits for what the others have to say.
  void wait_for_others() noexcept;
  /// Tells the observer that the step is over but for the update.
  void leave_step() noexcept {
    if (observer_ != nullptr) observer_->outside();
  }

 private:
  struct LocalStage;
  // An op under way. Its coroutines tell it when they wait for something of the stage's own.
  struct Run final : OpWatch {
    enum class State : std::uint8_t { none, working, waiting };
    Run(StageActor& its_actor, std::span<std::byte> its_workspace) noexcept
        : actor(its_actor), workspace(its_workspace) {}
    void waits() noexcept override { actor.pause(*this); }
    void goes_on() noexcept override { actor.resume(*this); }
    StageActor& actor;
    std::span<std::byte> workspace;
    State state = State::none;
    Decision decision = Decision::wait();
    Nanoseconds start = 0;
    Nanoseconds idle_since = 0;  // when the rank had nothing to do before, or `start`
    Task<void> task;
  };

  struct LocalStage {
    Stage* stage = nullptr;
    const StagePlan* plan = nullptr;
    const ShapeList* inputs = nullptr;  // largest
    std::unique_ptr<BlockPool> activation_slots;
    std::unique_ptr<BlockPool> weight_slots;
    std::vector<MicrobatchContext> contexts;  // [micro-batch]
    std::vector<Buffer> activation;           // [micro-batch]: the slot held
    std::vector<Buffer> weight;
    std::uint32_t next_forward = 0;  // lowest micro-batch not issued, brought up to date by describe_wait
    std::uint32_t next_backward = 0;
    std::uint32_t in_flight = 0;  // pairs
    std::uint32_t most_in_flight = 0;
    std::vector<std::unique_ptr<Run>> runs;  // one, or as many as may wait beside others
  };

  void begin_step(std::uint64_t step, Phase phase, BatchSource& data);
  [[nodiscard]] bool finished() const noexcept { return pairs_left_ == 0; }
  Task<void> issue(Decision decision);
  void check(const Decision& decision);
  [[nodiscard]] bool waits_for_own_stage(const LocalStage& local, const Op& op) const noexcept;
  Run& begin(LocalStage& local, const Decision& decision);
  [[nodiscard]] static bool holds_up(const LocalStage& local, const Run& run) noexcept;
  Task<void> perform(Run& run);
  void finish(Run& run);
  void pause(Run& run) noexcept;
  void resume(Run& run) noexcept;
  Task<void> forward(LocalStage& local, std::uint32_t microbatch);
  Task<void> backward_input(LocalStage& local, std::uint32_t microbatch);
  Task<void> backward_weight(LocalStage& local, std::uint32_t microbatch);
  void hold(std::uint64_t bytes) noexcept;
  void trace(TraceKind kind, const Op& op, Nanoseconds start, Nanoseconds end);
  [[nodiscard]] std::string first_not_finite(const MicrobatchContext& context) const;
  void check_loss(const MicrobatchContext& context) const;
  void check_gradients(const LocalStage& local, const MicrobatchContext& context,
                       const TensorList& gradients) const;
  void describe_wait() noexcept;
  void tell_own_wait(const Run& run) noexcept;
  LocalStage& local(std::uint16_t stage) noexcept;

  std::uint32_t rank_;
  std::uint16_t last_stage_;
  std::unique_ptr<Policy> policy_;
  Mailbox& mailbox_;
  RankState& view_;
  const Schedule& schedule_;
  std::vector<LocalStage> stages_;
  BatchSource* data_ = nullptr;
  StepRecord record_;
  std::uint64_t step_ = 0;
  std::uint32_t pairs_left_ = 0;  // of (stage, micro-batch), not yet through
  std::uint64_t ops_done_ = 0;
  std::uint64_t held_bytes_ = 0;
  std::uint32_t working_ = 0;  // ops under way that do not wait
  Nanoseconds working_since_ = 0;
  Nanoseconds idle_since_ = 0;
  std::vector<TraceEvent>* events_ = nullptr;
  ActorObserver* observer_ = nullptr;
};

}  // namespace weft
