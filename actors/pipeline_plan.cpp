#include "weft/actors/pipeline_plan.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "weft/scheduling/weight_turns.h"

namespace weft {
namespace {

StagePeaks peaks_of(const Schedule& schedule, std::uint16_t stage) {
  const RankPeaks& rank = schedule.peaks[schedule.rank_of[stage]];
  for (const StagePeaks& peaks : rank.stages)
    if (peaks.stage == stage) return peaks;
  throw ScheduleError(fmt::format("schedule {} has no ops for stage {}", schedule.name, stage));
}

// Credits such that a sender never waits for one while it keeps to its slots. Towards higher stages: a
// message not yet consumed keeps a slot of the source taken, a consumed one (its buffer is kept until I or W)
// one of the target. Towards lower stages: the micro-batch's slot at the target is taken all the while.
void add_edges(PipelinePlan& plan) {
  const Schedule& schedule = plan.schedule;
  const std::uint32_t m = schedule.microbatches;
  for (std::uint16_t source = 0; source + 1u < schedule.stage_count; ++source) {
    const auto target = static_cast<std::uint16_t>(source + 1);
    const std::uint32_t below = peaks_of(schedule, source).in_flight;
    const std::uint32_t above = peaks_of(schedule, target).in_flight;
    EdgePlan forward;
    forward.kind = MessageKind::activation;
    forward.source_stage = source;
    forward.target_stage = target;
    forward.source_rank = schedule.rank_of[source];
    forward.target_rank = schedule.rank_of[target];
    forward.credits = std::max(1u, std::min(m, below + above));
    forward.tensors = plan.inputs[target];
    EdgePlan backward;
    backward.kind = MessageKind::gradient;
    backward.source_stage = target;
    backward.target_stage = source;
    backward.source_rank = forward.target_rank;
    backward.target_rank = forward.source_rank;
    backward.credits = std::max(1u, std::min(m, below));
    for (const TensorSpec& spec : forward.tensors)
      if (spec.differentiable) backward.tensors.push_back(spec);
    plan.edges.push_back(std::move(forward));
    if (!backward.tensors.empty()) plan.edges.push_back(std::move(backward));
  }
}

// Sums and products of such sizes stay in range.
void check_sizes(std::uint16_t stage, const StagePlan& plan) {
  constexpr std::size_t most = std::size_t{1} << 56;
  for (const auto& [name, bytes] : {std::pair{"activation_slot", plan.activation_slot},
                                    {"weight_slot", plan.weight_slot},
                                    {"workspace", plan.workspace},
                                    {"state", plan.state}})
    if (bytes > most) throw Error(fmt::format("stage {}: its {} would be {} bytes", stage, name, bytes));
  if (plan.ops_beside > 0 && plan.workspace > most / plan.ops_beside)
    throw Error(fmt::format("stage {}: {} ops beside others with workspaces of {} bytes each", stage,
                            plan.ops_beside, plan.workspace));
  for (const TensorSpec& spec : plan.outputs)
    if (spec.bytes() > most)
      throw Error(fmt::format("stage {}: a tensor of its output would be {} bytes", stage, spec.bytes()));
}

// As many slots and buffers as a schedule of millions of micro-batches wants of such sizes are more than a
// number holds.
void check_rank(const PipelinePlan& plan, std::uint32_t rank) {
  double slots = 0;
  double messages = 0;
  for (const std::uint16_t stage : plan.schedule.stages_of[rank]) {
    const StagePeaks peaks = peaks_of(plan.schedule, stage);
    double held = static_cast<double>(aligned(plan.stages[stage].activation_slot)) +
                  static_cast<double>(aligned(plan.stages[stage].weight_slot));
    for (const TensorSpec& spec : plan.inputs[stage]) held += static_cast<double>(spec.bytes());
    slots += held * peaks.in_flight;
  }
  for (const EdgePlan& edge : plan.edges)
    if (edge.source_rank == rank || edge.target_rank == rank)
      for (const TensorSpec& spec : edge.tensors)
        messages += static_cast<double>(aligned(spec.bytes())) * (edge.credits + Outbox::send_buffers);
  constexpr double most = 0x1p62;
  for (const auto& [name, bytes] : {std::pair{"slots", slots}, {"message buffers", messages}})
    if (bytes > most)
      throw ConfigError(
          fmt::format("rank {}: its {} would be {:.3g} bytes, more than any memory; use fewer "
                      "micro-batches in flight or smaller ones",
                      rank, name, bytes));
}

void find_ties(PipelinePlan& plan, const std::vector<std::vector<Parameter>>& parameters) {
  std::map<std::string, std::pair<std::uint16_t, std::uint32_t>> first_uses;
  for (std::uint16_t stage = 0; stage < parameters.size(); ++stage)
    for (std::uint32_t i = 0; i < parameters[stage].size(); ++i) {
      const Parameter& parameter = parameters[stage][i];
      if (!first_uses.emplace(parameter.name, std::pair(stage, i)).second)
        throw Error(fmt::format("two parameters are called {}", parameter.name));
      if (parameter.tied_to.empty()) continue;
      const auto first = first_uses.find(parameter.tied_to);
      if (first == first_uses.end() ||
          parameters[first->second.first][first->second.second].shape != parameter.shape)
        throw Error(fmt::format("{} is tied to {}, which is no earlier parameter of the same shape",
                                parameter.name, parameter.tied_to));
      const Parameter& used = parameters[first->second.first][first->second.second];
      if (!used.tied_to.empty())
        throw Error(fmt::format("{} is tied to {}, which is tied itself; allowed: {}", parameter.name,
                                parameter.tied_to, used.tied_to));
      if (used.weight_decay != parameter.weight_decay)
        throw Error(
            fmt::format("{} is tied to {}, but weight_decay is {} for the one and {} for the other; allowed: "
                        "the same for both",
                        parameter.name, parameter.tied_to, parameter.weight_decay, !parameter.weight_decay));
      plan.ties.push_back({parameter.name, first->second.first, stage, first->second.second, i,
                           parameter.shape.elements() * sizeof(float)});
    }
}

// The most bytes that a stage's slots hold at once, whatever a policy does: `held` pairs between F and I,
// others between I and W; a pair in its I has both slots.
std::uint64_t most_held(const StagePlan& plan, std::uint64_t input, const StagePeaks& peaks) {
  const std::uint64_t kept = plan.keeps_input_until_weight ? input : 0;
  std::uint64_t most = 0;
  for (std::uint32_t held = 0; held <= peaks.activation_slots; ++held) {
    const std::uint32_t in_input = std::min({held, peaks.weight_slots, std::max(1u, plan.ops_beside)});
    const std::uint32_t weights = std::min(peaks.weight_slots, peaks.in_flight + in_input - held);
    const std::uint32_t both = held + weights > peaks.in_flight ? held + weights - peaks.in_flight : 0;
    most = std::max(
        most, held * (plan.activation_slot + input) + weights * (plan.weight_slot + kept) - both * kept);
  }
  return most;
}

/// Each tensor begins on a border of its own.
std::uint64_t checkpoint_bytes(std::vector<Parameter*> parameters, const Optimizer* optimizer) {
  std::erase_if(parameters, [](const Parameter* parameter) { return !parameter->tied_to.empty(); });
  std::uint64_t bytes = optimizer != nullptr ? optimizer->state_bytes(parameters) : 0;
  for (const Parameter* parameter : parameters) {
    const std::uint64_t elements = parameter->shape.elements();
    bytes += aligned(elements * dtype_size(parameter->dtype));
    if (parameter->dtype != DType::float32) bytes += aligned(elements * sizeof(float));
  }
  return bytes;
}

}  // namespace

PipelinePlan plan_pipeline(Schedule schedule, const StageFactory& stages, const OptimizerFactory& optimizer) {
  PipelinePlan plan;
  plan.schedule = std::move(schedule);
  plan.follows_order = !plan.schedule.dynamic;
  const auto count = static_cast<std::uint16_t>(plan.schedule.stage_count);
  ShapeList input;
  std::vector<std::vector<Parameter>> parameters(count);
  for (std::uint16_t s = 0; s < count; ++s) {
    const std::unique_ptr<Stage> stage = stages(s, count);
    if (!stage) throw Error(fmt::format("the stage factory made no stage {}", s));
    plan.inputs.push_back(input);
    plan.stages.push_back(stage->plan(input));
    check_sizes(s, plan.stages.back());
    input = plan.stages.back().outputs;
    if (input.size() > TensorList::capacity) throw Error(fmt::format("stage {} has more than 8 outputs", s));
    if (plan.schedule.splits_backward && !plan.stages.back().splits_backward)
      throw ScheduleError(
          fmt::format("schedule {} runs I and W apart, which stage {} cannot; allowed: afab, 1f1b, "
                      "interleaved_1f1b",
                      plan.schedule.name, s));
    const auto own = stage->parameters();
    parameters[s].assign(own.begin(), own.end());
    std::vector<Parameter*> pointers;
    auto& names = plan.parameters.emplace_back();
    std::uint64_t values = 0;
    std::uint64_t gradients = 0;
    for (Parameter& parameter : parameters[s]) {
      pointers.push_back(&parameter);
      names.push_back(parameter.name);
      const std::uint64_t elements = parameter.shape.elements();
      values += elements * (parameter.dtype == DType::float32 ? sizeof(float)
                                                              : dtype_size(parameter.dtype) + sizeof(float));
      gradients += elements * sizeof(float);
    }
    plan.parameter_bytes.push_back(std::min<std::uint64_t>(values, plan.stages.back().state));
    plan.gradient_bytes.push_back(
        std::min(gradients, plan.stages.back().state - plan.parameter_bytes.back()));
    const std::unique_ptr<Optimizer> updates = optimizer ? optimizer() : nullptr;
    if (optimizer && !updates) throw Error("the optimizer factory made no optimizer");
    plan.state_bytes.push_back(updates ? updates->state_bytes(pointers) : 0);
    plan.checkpoint_bytes.push_back(checkpoint_bytes(pointers, updates.get()));
  }
  find_ties(plan, parameters);
  add_edges(plan);
  for (std::uint32_t rank = 0; rank < plan.schedule.ranks; ++rank) check_rank(plan, rank);
  return plan;
}

RankMemory PipelinePlan::memory(std::uint32_t rank) const {
  RankMemory memory;
  std::uint64_t own_workspaces = 0;
  for (const std::uint16_t stage : schedule.stages_of[rank]) {
    const StagePeaks peaks = peaks_of(schedule, stage);
    const StagePlan& plan = stages[stage];
    memory.parameters += parameter_bytes[stage];
    memory.gradients += gradient_bytes[stage];
    memory.packed_weights += aligned(plan.state) - parameter_bytes[stage] - gradient_bytes[stage];
    memory.optimizer += state_bytes[stage];
    memory.checkpoint_copy += checkpoint_bytes[stage];
    memory.activation_slots += BlockPool::arena_bytes(plan.activation_slot, peaks.activation_slots);
    memory.weight_slots += BlockPool::arena_bytes(plan.weight_slot, peaks.weight_slots);
    if (plan.ops_beside == 0)
      memory.workspace = std::max<std::uint64_t>(memory.workspace, aligned(plan.workspace));
    else
      own_workspaces += aligned(plan.workspace) * plan.ops_beside;
  }
  memory.workspace += own_workspaces;
  memory.messages = Mailbox::arena_bytes(rank, edges);
  for (const TiedPair& tie : ties)
    if (schedule.rank_of[tie.first_stage] == rank && schedule.rank_of[tie.second_stage] != rank)
      memory.messages += aligned(tie.bytes);
  const auto input_of = [this](std::uint16_t stage) {
    std::uint64_t bytes = 0;
    for (const TensorSpec& spec : inputs[stage]) bytes += spec.bytes();
    return bytes;
  };
  if (!follows_order) {
    for (const std::uint16_t stage : schedule.stages_of[rank])
      memory.peak_activation += most_held(stages[stage], input_of(stage), peaks_of(schedule, stage));
    return memory;
  }

  // The same bookkeeping as the actor's, over the order as it runs.
  std::uint64_t held = 0;
  for (const Op& op : as_run(schedule.order[rank])) {
    const StagePlan& plan = stages[op.stage];
    const std::uint64_t input = input_of(op.stage);
    const bool whole = op.kind == OpKind::backward;
    if (op.kind == OpKind::forward) held += plan.activation_slot + input;
    if (whole || op.kind == OpKind::backward_input) held += plan.weight_slot;
    memory.peak_activation = std::max(memory.peak_activation, held);
    if (whole || op.kind == OpKind::backward_input)
      held -= plan.activation_slot + (plan.keeps_input_until_weight ? 0 : input);
    if (whole || op.kind == OpKind::backward_weight)
      held -= plan.weight_slot + (plan.keeps_input_until_weight ? input : 0);
  }
  return memory;
}

}  // namespace weft
