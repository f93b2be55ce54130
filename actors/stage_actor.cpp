#include "weft/actors/stage_actor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "weft/base/error.h"

namespace weft {

// The whole idea: what has arrived is shown to the policy, the policy names the next op, the op's output
// leaves as a message.
Task<void> StageActor::run_step(std::uint64_t step, Phase phase, BatchSource& data) {
  begin_step(step, phase, data);
  while (!finished()) {
    view_.set_now(mailbox_.loop().now());
    const Decision decision = policy_->choose(view_);
    if (decision.op() != nullptr) {
      co_await issue(decision);
    } else {
      describe_wait();
      co_await mailbox_.next(decision.deadline());
    }
  }
}

Task<void> StageActor::issue(Decision decision) {
  const Op op = *decision.op();
  if (!view_.inputs_ready(op))
    throw ScheduleError(
        fmt::format("rank {}: the policy names {} whose inputs are not there", rank_, to_string(op)));
  LocalStage& at = local(op.stage);
  if (op.kind != OpKind::backward_weight) {
    const auto kind = op.kind == OpKind::forward ? MessageKind::activation : MessageKind::gradient;
    if (observer_ != nullptr && !mailbox_.has_room(kind, op.stage))
      observer_->waiting(ops_done_, "room at the receiver of its next message");
    co_await mailbox_.reserve(kind, op.stage, at.contexts[op.microbatch].outputs_);
  }

  const Nanoseconds start = mailbox_.loop().now();
  if (observer_) observer_->working(ops_done_, op);
  view_.mark_issued(op);
  if (decision.holds_weight()) view_.mark_held(op.stage, op.microbatch);
  switch (op.kind) {
    case OpKind::forward:
      co_await forward(at, op.microbatch);
      break;
    case OpKind::backward: {
      co_await backward_input(at, op.microbatch);
      const Nanoseconds half = mailbox_.loop().now();
      trace(TraceKind::input_done, op, half, half);
      co_await backward_weight(at, op.microbatch);
      break;
    }
    case OpKind::backward_input:
      co_await backward_input(at, op.microbatch);
      break;
    case OpKind::backward_weight:
      co_await backward_weight(at, op.microbatch);
      break;
  }
  view_.mark_completed(op);

  const Nanoseconds end = mailbox_.loop().now();
  if (record_.first_start != 0 && idle_since_ < start) trace(TraceKind::waiting, op, idle_since_, start);
  if (decision.was_held()) trace(TraceKind::held, op, decision.held_since(), start);
  trace(TraceKind::executed, op, start, end);
  if (record_.first_start == 0) record_.first_start = start;
  record_.last_end = end;
  record_.busy += end - start;
  idle_since_ = end;
  ++ops_done_;
}

Task<void> StageActor::forward(LocalStage& at, std::uint32_t microbatch) {
  MicrobatchContext& context = at.contexts[microbatch];
  record_.peak_in_flight = std::max(record_.peak_in_flight, view_.in_flight());
  at.activation[microbatch] = at.activation_slots->acquire();
  if (!at.activation[microbatch] && at.plan->activation_slot > 0)
    throw ScheduleError(fmt::format("rank {}: the policy exceeds the {} activation slots of stage {}", rank_,
                                    at.activation_slots->count(), context.stage));
  context.activation = {at.activation[microbatch].data(), at.plan->activation_slot};
  context.step = step_;
  context.phase = view_.phase();
  if (context.stage == 0)
    context.inputs = &data_->inputs(microbatch);
  else
    context.input = mailbox_.take(MessageKind::activation, context.stage, microbatch);
  if (context.stage == last_stage_) context.targets = &data_->targets(microbatch);
  hold(at.plan->activation_slot + context.input.bytes());

  StageOutput output = co_await at.stage->forward(context);
  mailbox_.post(MessageKind::activation, context.stage, microbatch, std::move(output.tensors),
                context.outputs_);
  context.outputs_.clear();
  if (context.stage == last_stage_) check_loss(context);
  if (view_.phase() == Phase::evaluate) {
    held_bytes_ -= at.plan->activation_slot + context.input.bytes();
    context.input.clear();
    at.activation[microbatch].release();
    --ops_left_;
  }
}

Task<void> StageActor::backward_input(LocalStage& at, std::uint32_t microbatch) {
  MicrobatchContext& context = at.contexts[microbatch];
  at.weight[microbatch] = at.weight_slots->acquire();
  if (!at.weight[microbatch] && at.plan->weight_slot > 0)
    throw ScheduleError(fmt::format("rank {}: the policy exceeds the {} weight-work slots of stage {}", rank_,
                                    at.weight_slots->count(), context.stage));
  context.weight = {at.weight[microbatch].data(), at.plan->weight_slot};
  hold(at.plan->weight_slot);
  TensorList gradient;
  if (context.stage != last_stage_)
    gradient = mailbox_.take(MessageKind::gradient, context.stage, microbatch);

  StageOutput output = co_await at.stage->backward_input(context, std::move(gradient));
  check_gradients(at, context, output.tensors);
  mailbox_.post(MessageKind::gradient, context.stage, microbatch, std::move(output.tensors),
                context.outputs_);
  context.outputs_.clear();
  at.activation[microbatch].release();
  context.activation = {};
  held_bytes_ -= at.plan->activation_slot;
  if (!at.plan->keeps_input_until_weight) {
    held_bytes_ -= context.input.bytes();
    context.input.clear();
  }
}

Task<void> StageActor::backward_weight(LocalStage& at, std::uint32_t microbatch) {
  MicrobatchContext& context = at.contexts[microbatch];
  co_await at.stage->backward_weight(context);
  held_bytes_ -= at.plan->weight_slot + context.input.bytes();
  context.input.clear();
  at.weight[microbatch].release();
  context.weight = {};
  --ops_left_;
}

StageActor::StageActor(std::uint32_t rank, const PipelinePlan& plan,
                       std::span<const std::unique_ptr<Stage>> stages, std::unique_ptr<Policy> policy,
                       Mailbox& mailbox, RankState& view, Arena& arena, Queue& queue)
    : rank_(rank),
      last_stage_(static_cast<std::uint16_t>(plan.schedule.stage_count - 1)),
      policy_(std::move(policy)),
      mailbox_(mailbox),
      view_(view),
      schedule_(plan.schedule) {
  const std::uint32_t m = schedule_.microbatches;
  const auto& peaks = schedule_.peaks[rank].stages;
  std::size_t workspace = 0;
  for (std::size_t i = 0; i < stages.size(); ++i) {
    LocalStage& at = stages_.emplace_back();
    at.stage = stages[i].get();
    at.plan = &plan.stages[view.stages()[i]];
    at.inputs = &plan.inputs[view.stages()[i]];
    at.activation_slots =
        std::make_unique<BlockPool>(arena, at.plan->activation_slot, peaks[i].activation_slots);
    at.weight_slots = std::make_unique<BlockPool>(arena, at.plan->weight_slot, peaks[i].weight_slots);
    at.contexts.resize(m);
    at.activation.resize(m);
    at.weight.resize(m);
    workspace = std::max(workspace, at.plan->workspace);
  }
  workspace_ = {arena.take(workspace), workspace};
  record_.losses.resize(m);
  for (std::size_t i = 0; i < stages_.size(); ++i)
    for (std::uint32_t k = 0; k < m; ++k) {
      MicrobatchContext& context = stages_[i].contexts[k];
      context.stage = view.stages()[i];
      context.microbatch = k;
      context.microbatches = m;
      context.workspace = workspace_;
      context.queue = &queue;
      if (context.stage == last_stage_) context.loss = &record_.losses[k];
      context.poll_ = [](void* loop) { static_cast<EventLoop*>(loop)->poll(); };
      context.poll_owner_ = &mailbox.loop();
      context.outputs_.reserve(TensorList::capacity);
    }
}

void StageActor::begin_step(std::uint64_t step, Phase phase, BatchSource& data) {
  step_ = step;
  data_ = &data;
  view_.begin_step(phase);
  mailbox_.begin_step(step, phase);
  policy_->begin_step(step, phase);
  ops_left_ = static_cast<std::uint32_t>(stages_.size()) * schedule_.microbatches;
  for (LocalStage& at : stages_) at.next_forward = at.next_backward = 0;
  std::fill(record_.losses.begin(), record_.losses.end(), 0.0);
  record_.busy = 0;
  record_.first_start = record_.last_end = 0;
  record_.peak_in_flight = 0;
  record_.peak_activation_bytes = 0;
}

void StageActor::trace_update(Nanoseconds start, Nanoseconds end) {
  trace(TraceKind::update, Op{}, start, end);
}

void StageActor::trace(TraceKind kind, const Op& op, Nanoseconds start, Nanoseconds end) {
  if (events_ != nullptr)
    events_->push_back({start, end, op, rank_, static_cast<std::uint32_t>(step_), kind, view_.phase()});
}

void StageActor::trace(std::vector<TraceEvent>* events) noexcept {
  events_ = events;
  mailbox_.trace(events);
}

void StageActor::hold(std::uint64_t bytes) noexcept {
  held_bytes_ += bytes;
  record_.peak_activation_bytes = std::max(record_.peak_activation_bytes, held_bytes_);
}

StageActor::LocalStage& StageActor::local(std::uint16_t stage) noexcept {
  const auto stages = view_.stages();
  return stages_[static_cast<std::size_t>(std::lower_bound(stages.begin(), stages.end(), stage) -
                                          stages.begin())];
}

// Their number and type are the mailbox's to check.
void StageActor::check_gradients(const LocalStage& at, const MicrobatchContext& context,
                                 const TensorList& gradients) const {
  std::size_t next = 0;
  for (std::size_t i = 0; i < context.input.size() && next < gradients.size(); ++i) {
    if (!(*at.inputs)[i].differentiable) continue;
    const Tensor& gradient = gradients[next++];
    if (gradient.shape() != context.input[i].shape())
      throw Error(fmt::format("stage {}, micro-batch {}: the gradient of input {} is {}, the input is {}",
                              context.stage, context.microbatch, i, gradient.shape().str(),
                              context.input[i].shape().str()));
  }
}

void StageActor::wait_for_others() noexcept {
  if (observer_ != nullptr) observer_->waiting(ops_done_, "the other ranks at the end of the step");
}

void StageActor::check_loss(const MicrobatchContext& context) const {
  const double loss = *context.loss;
  if (std::isfinite(loss)) return;
  std::string first = "the loss itself";
  for (std::size_t i = 0; i < context.input.size(); ++i) {
    const Tensor& tensor = context.input[i];
    if (tensor.dtype() != DType::float32) continue;
    const float* values = tensor.as<float>();
    const std::size_t n = tensor.bytes() / sizeof(float);
    if (std::all_of(values, values + n, [](float x) { return std::isfinite(x); })) continue;
    first = fmt::format("the activation of stage {}", context.stage - 1);
    break;
  }
  throw NonFiniteError(fmt::format(
      "step {}, micro-batch {}: the loss is {}; first tensor that is not finite: {}", context.step,
      context.microbatch, std::isnan(loss) ? "NaN" : fmt::format("{}", loss), first));
}

// For the launcher's report when a run hangs: the nearest message that is missing.
void StageActor::describe_wait() noexcept {
  if (!observer_) return;
  char text[120];
  const auto tell = [&](const char* what, std::uint32_t from_stage, char kind, std::uint32_t microbatch) {
    *fmt::format_to_n(text, sizeof(text) - 1, "the {} of {}{}{} from rank {}", what, from_stage, kind,
                      microbatch, schedule_.rank_of[from_stage])
         .out = '\0';
    observer_->waiting(ops_done_, text);
  };
  const std::uint32_t m = schedule_.microbatches;
  for (LocalStage& at : stages_) {
    const std::uint16_t stage = at.contexts[0].stage;
    while (at.next_forward < m && view_.issued({at.next_forward, stage, OpKind::forward})) ++at.next_forward;
    while (at.next_backward < m && view_.issued({at.next_backward, stage, OpKind::backward_input}))
      ++at.next_backward;
    if (view_.phase() == Phase::train && at.next_backward < at.next_forward &&
        !view_.inputs_ready({at.next_backward, stage, OpKind::backward_input}))
      return tell("gradient", stage + 1u, 'B', at.next_backward);
    if (at.next_forward < m && !view_.inputs_ready({at.next_forward, stage, OpKind::forward}))
      return tell("activation", stage - 1u, 'F', at.next_forward);
  }
  observer_->waiting(ops_done_, "a message");
}

}  // namespace weft
