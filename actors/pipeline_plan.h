#pragma once
// Everything about a pipeline that is known before the first message: who owns what, the sizes of all slots,
// buffers and credits.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/actors/mailbox.h"
#include "weft/actors/optimizer.h"
#include "weft/actors/stage.h"
#include "weft/scheduling/orders/schedule.h"

namespace weft {

/// A second (or third, ...) use of a weight, and the first one whose gradient it is added to.
struct TiedPair {
  std::string name;  ///< of the second use
  std::uint16_t first_stage = 0;
  std::uint16_t second_stage = 0;
  std::uint32_t first_index = 0;   ///< position in the first stage's parameters
  std::uint32_t second_index = 0;  ///< position in the second stage's parameters
  std::uint64_t bytes = 0;         ///< of the gradient
};

/// What a rank takes before the first step, in bytes.
struct RankMemory {
  std::uint64_t parameters = 0;  ///< values, and their float32 masters where values are bfloat16
  std::uint64_t gradients = 0;
  std::uint64_t packed_weights = 0;  ///< and whatever else a stage keeps from step to step, padding included
  std::uint64_t optimizer = 0;
  std::uint64_t activation_slots = 0;  ///< F to I
  std::uint64_t weight_slots = 0;      ///< I to W
  std::uint64_t messages = 0;          ///< receive and send buffers, tied gradients
  std::uint64_t workspace = 0;
  /// Most bytes in held slots at once with the largest shapes, received inputs included: what a run reports
  /// as `peak_activation_bytes`. Where no order is followed, the most that the slots can hold: a run may stay
  /// below it.
  std::uint64_t peak_activation = 0;
  /// Of a copy of what checkpoints hold, which a saving program takes at its first save: not part of the
  /// total.
  std::uint64_t checkpoint_copy = 0;

  [[nodiscard]] std::uint64_t total() const noexcept {
    return parameters + gradients + packed_weights + optimizer + activation_slots + weight_slots + messages +
           workspace;
  }
};

/// The plan of a whole pipeline; every rank makes the same one.
struct PipelinePlan {
  Schedule schedule;
  bool follows_order = true;      ///< false for dynamic schedules and policies of one's own
  std::vector<StagePlan> stages;  ///< [stage]
  std::vector<ShapeList> inputs;  ///< [stage]: largest received shapes
  std::vector<std::vector<std::string>> parameters;  ///< [stage]: names
  std::vector<std::uint64_t> parameter_bytes;        ///< [stage]: values and masters
  std::vector<std::uint64_t> gradient_bytes;         ///< [stage]
  std::vector<std::uint64_t> state_bytes;            ///< [stage]: optimizer state
  std::vector<std::uint64_t>
      checkpoint_bytes;  ///< [stage]: values, masters and state, without second uses of weights
  std::vector<EdgePlan> edges;
  std::vector<TiedPair> ties;  ///< in the order of the model, in which their gradients are added

  [[nodiscard]] RankMemory memory(std::uint32_t rank) const;
};

/// Makes every stage once, without its memory, and asks for its plan. Throws ScheduleError when the schedule
/// needs a split backward that a stage does not have, Error when a stage's plan makes no sense (more than 8
/// tensors, a tie to nothing) or the bytes of a rank are more than a number holds.
[[nodiscard]] PipelinePlan plan_pipeline(Schedule schedule, const StageFactory& stages,
                                         const OptimizerFactory& optimizer);

}  // namespace weft
