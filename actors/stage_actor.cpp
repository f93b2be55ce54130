#include "weft/actors/stage_actor.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "weft/base/error.h"
#include "weft/tensor/bfloat16.h"

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

// Returns when the op is done or, where its stage allows it, waits for something of the stage's own.
Task<void> StageActor::issue(Decision decision) {
  check(decision);
  const Op op = *decision.op();
  LocalStage& at = local(op.stage);
  while (waits_for_own_stage(at, op)) {
    describe_wait();
    co_await mailbox_.next(Decision::never);
  }
  if (op.kind != OpKind::backward_weight) {
    const auto kind = op.kind == OpKind::forward ? MessageKind::activation : MessageKind::gradient;
    while (!mailbox_.has_room(kind, op.stage)) {
      if (observer_ != nullptr) observer_->waiting(ops_done_, "room at the receiver of its next message");
      co_await mailbox_.next(Decision::never);
    }
    mailbox_.reserve(kind, op.stage, at.contexts[op.microbatch].outputs_);
  }
  Run& run = begin(at, decision);
  while (holds_up(at, run)) co_await mailbox_.next(Decision::never);
}

// What a policy names is checked here, whoever wrote it.
void StageActor::check(const Decision& decision) {
  const Op& op = *decision.op();
  const char* rule = view_.broken_rule(op);
  if (rule == nullptr && (op.kind == OpKind::backward_input || op.kind == OpKind::backward_weight) &&
      !local(op.stage).plan->splits_backward)
    rule = decision.holds_weight()
               ? "its B comes out of micro-batch order, and its stage cannot run I and W apart"
               : "its stage cannot run I and W apart";
  if (rule != nullptr)
    throw ScheduleError(fmt::format("rank {}: the policy names {}: {}", rank_, to_string(op), rule));
}

// Ops that wait beside others still hold a workspace and slots, and weight gradients are added one by one.
bool StageActor::waits_for_own_stage(const LocalStage& at, const Op& op) const noexcept {
  std::size_t under_way = 0;
  bool adds_weight = false;
  for (const auto& run : at.runs) {
    if (run->state == Run::State::none) continue;
    ++under_way;
    const OpKind kind = run->decision.op()->kind;
    adds_weight |= kind == OpKind::backward || kind == OpKind::backward_weight;
  }
  if (under_way == 0) return false;
  if (under_way == at.runs.size()) return true;
  switch (op.kind) {
    case OpKind::forward:
      return at.activation_slots->available() == 0 || at.in_flight == at.most_in_flight;
    case OpKind::backward:
      return adds_weight || at.weight_slots->available() == 0;
    case OpKind::backward_input:
      return at.weight_slots->available() == 0;
    case OpKind::backward_weight:
      return adds_weight;
  }
  return false;
}

StageActor::Run& StageActor::begin(LocalStage& at, const Decision& decision) {
  Run& run = **std::find_if(at.runs.begin(), at.runs.end(),
                            [](const auto& other) { return other->state == Run::State::none; });
  const Op& op = *decision.op();
  run.decision = decision;
  run.start = mailbox_.loop().now();
  run.idle_since = working_ > 0 || record_.first_start == 0 ? run.start : idle_since_;
  if (record_.first_start == 0) record_.first_start = run.start;
  run.state = Run::State::working;
  if (working_++ == 0) working_since_ = run.start;
  if (observer_) observer_->working(ops_done_, op);
  view_.mark_issued(op);
  if (decision.holds_weight()) view_.mark_held(op.stage, op.microbatch);
  at.contexts[op.microbatch].workspace = run.workspace;
  run.task = perform(run);
  run.task.start(mailbox_.loop().ready(), &run);
  return run;
}

bool StageActor::holds_up(const LocalStage& at, const Run& run) noexcept {
  return run.state == Run::State::working || (run.state == Run::State::waiting && at.plan->ops_beside == 0);
}

Task<void> StageActor::perform(Run& run) {
  const Op op = *run.decision.op();
  LocalStage& at = local(op.stage);
  try {
    if (op.kind == OpKind::forward) co_await forward(at, op.microbatch);
    if (op.kind == OpKind::backward || op.kind == OpKind::backward_input)
      co_await backward_input(at, op.microbatch);
    if (op.kind == OpKind::backward) {
      const Nanoseconds input_done = mailbox_.loop().now();
      trace(TraceKind::input_done, op, input_done, input_done);
    }
    if (op.kind == OpKind::backward || op.kind == OpKind::backward_weight)
      co_await backward_weight(at, op.microbatch);
    finish(run);
  } catch (...) {
    mailbox_.loop().fail(std::current_exception());  // the actor may be waiting for something else
  }
}

void StageActor::finish(Run& run) {
  const Op op = *run.decision.op();
  view_.mark_completed(op);
  const Nanoseconds end = mailbox_.loop().now();
  if (run.idle_since < run.start) trace(TraceKind::waiting, op, run.idle_since, run.start);
  if (run.decision.was_held()) trace(TraceKind::held, op, run.decision.held_since(), run.start);
  trace(TraceKind::executed, op, run.start, end);
  record_.last_end = end;
  if (--working_ == 0) record_.busy += end - working_since_;
  idle_since_ = end;
  ++ops_done_;
  const OpKind last = view_.phase() == Phase::evaluate ? OpKind::forward : OpKind::backward_weight;
  if (op.kind == last || op.kind == OpKind::backward) {
    --local(op.stage).in_flight;
    --pairs_left_;
  }
  run.state = Run::State::none;
  mailbox_.loop().wake();
}

void StageActor::pause(Run& run) noexcept {
  run.state = Run::State::waiting;
  tell_own_wait(run);
  if (local(run.decision.op()->stage).plan->ops_beside == 0) return;  // the rank does nothing else meanwhile
  idle_since_ = mailbox_.loop().now();
  if (--working_ == 0) record_.busy += idle_since_ - working_since_;
  mailbox_.loop().wake();
}

void StageActor::resume(Run& run) noexcept {
  run.state = Run::State::working;
  if (observer_ != nullptr) observer_->working(ops_done_, *run.decision.op());
  if (local(run.decision.op()->stage).plan->ops_beside == 0) return;
  if (working_++ == 0) working_since_ = mailbox_.loop().now();
}

Task<void> StageActor::forward(LocalStage& at, std::uint32_t microbatch) {
  MicrobatchContext& context = at.contexts[microbatch];
  record_.peak_in_flight = std::max(record_.peak_in_flight, view_.in_flight());
  if (++at.in_flight > at.most_in_flight)
    throw ScheduleError(fmt::format("rank {}: the policy exceeds the {} micro-batches in flight of stage {}",
                                    rank_, at.most_in_flight, context.stage));
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
}

StageActor::StageActor(std::uint32_t rank, const PipelinePlan& plan,
                       std::span<const std::unique_ptr<Stage>> stages, std::unique_ptr<Policy> policy,
                       Mailbox& mailbox, RankState& view, Arena& arena, Queue& queue, std::uint32_t threads)
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
    at.most_in_flight = peaks[i].in_flight;
    at.contexts.resize(m);
    at.activation.resize(m);
    at.weight.resize(m);
    if (at.plan->ops_beside == 0) workspace = std::max(workspace, at.plan->workspace);
  }
  const std::span<std::byte> shared{arena.take(workspace), workspace};
  for (LocalStage& at : stages_) {
    if (at.plan->ops_beside == 0) at.runs.push_back(std::make_unique<Run>(*this, shared));
    for (std::uint32_t n = 0; n < at.plan->ops_beside; ++n) {
      const std::span<std::byte> own{arena.take(at.plan->workspace), at.plan->workspace};
      at.runs.push_back(std::make_unique<Run>(*this, own));
    }
  }
  record_.losses.resize(m);
  for (std::size_t i = 0; i < stages_.size(); ++i)
    for (std::uint32_t k = 0; k < m; ++k) {
      MicrobatchContext& context = stages_[i].contexts[k];
      context.stage = view.stages()[i];
      context.microbatch = k;
      context.microbatches = m;
      context.queue = &queue;
      context.threads = threads;
      if (context.stage == last_stage_) context.loss = &record_.losses[k];
      context.loop_ = &mailbox.loop();
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
  pairs_left_ = static_cast<std::uint32_t>(stages_.size()) * schedule_.microbatches;
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

namespace {

// Integers always are.
bool is_finite(const Tensor& tensor) {
  const auto all = [&]<class T>(const T* values) {
    return std::all_of(values, values + tensor.bytes() / sizeof(T),
                       [](T value) { return std::isfinite(to_float(value)); });
  };
  if (tensor.dtype() == DType::float32) return all(tensor.as<float>());
  if (tensor.dtype() == DType::bfloat16) return all(tensor.as<BFloat16>());
  return true;
}

}  // namespace

// Called when something has gone bad already: what the last stage was given, in its order.
std::string StageActor::first_not_finite(const MicrobatchContext& context) const {
  const auto bad = [](const TensorList* list) {
    std::size_t i = 0;
    while (list != nullptr && i < list->size() && is_finite((*list)[i])) ++i;
    return list != nullptr && i < list->size() ? std::optional(i) : std::nullopt;
  };
  if (const auto i = bad(&context.input)) {
    const std::string which = context.input.size() > 1 ? fmt::format("tensor {} of ", *i) : "";
    return fmt::format("{}the activation of stage {}", which, context.stage - 1);
  }
  if (const auto i = bad(context.stage == 0 ? context.inputs : nullptr))
    return fmt::format("input {} of the data", *i);
  if (const auto i = bad(context.targets)) return fmt::format("target {} of the data", *i);
  return "the loss itself";
}

void StageActor::check_loss(const MicrobatchContext& context) const {
  const double loss = *context.loss;
  if (std::isfinite(loss)) return;
  throw NonFiniteError(fmt::format(
      "step {}, micro-batch {}: the loss is {}; first tensor that is not finite: {}", context.step,
      context.microbatch, std::isnan(loss) ? "NaN" : fmt::format("{}", loss), first_not_finite(context)));
}

void StageActor::tell_own_wait(const Run& run) noexcept {
  if (observer_ == nullptr) return;
  char text[64];
  const Op& op = *run.decision.op();
  *fmt::format_to_n(text, sizeof(text) - 1, "the stage's own completion in {}{}{}", op.stage,
                    "FBIW"[static_cast<std::size_t>(op.kind)], op.microbatch)
       .out = '\0';
  observer_->waiting(ops_done_, text);
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
  for (const LocalStage& at : stages_)
    for (const auto& run : at.runs)
      if (run->state == Run::State::waiting) return tell_own_wait(*run);
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
