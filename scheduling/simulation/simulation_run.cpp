#include "weft/scheduling/simulation/simulation_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "weft/base/error.h"

namespace weft::simulation {

Nanoseconds Simulator::jittered(Nanoseconds time, double sigma, const CounterRandom& random,
                                std::uint16_t stage, OpKind kind, std::uint32_t microbatch) const {
  if (sigma == 0 || time == 0) return time;
  const std::uint64_t pair = std::uint64_t{stage} * schedule_.microbatches + microbatch;
  const double normal = random.normal(pair * 4 + static_cast<std::uint64_t>(kind));
  return std::llround(static_cast<double>(time) * std::exp(sigma * normal - sigma * sigma / 2));
}

Nanoseconds Simulator::cost(const Op& op) const {
  const OpCosts& costs = costs_[op.stage];
  const auto part = [&](Nanoseconds time, OpKind kind) {
    return jittered(time, settings_.compute_jitter, op_random_, op.stage, kind, op.microbatch);
  };
  switch (op.kind) {
    case OpKind::forward:
      return part(costs.forward, OpKind::forward);
    case OpKind::backward_input:
      return part(costs.input, OpKind::backward_input);
    case OpKind::backward_weight:
      return part(costs.weight, OpKind::backward_weight);
    case OpKind::backward:
      return part(costs.input, OpKind::backward_input) + part(costs.weight, OpKind::backward_weight);
  }
  return 0;
}

void Simulator::record(TraceKind kind, std::uint32_t rank, const Op& op, Nanoseconds start, Nanoseconds end) {
  if (settings_.record) result_.events.push_back({start, end, op, rank, 1, kind, settings_.phase});
}

void Simulator::queue(std::uint32_t rank) {
  if (std::exchange(ranks_[rank].queued, true)) return;
  ready_.push_back(rank);
}

void Simulator::ask(std::uint32_t number) {
  RankRun& rank = ranks_[number];
  rank.queued = false;
  if (rank.busy || rank.pairs_left == 0) return;
  rank.state.set_now(now_);
  const Decision decision =
      rank.blocked ? *std::exchange(rank.blocked, std::nullopt) : rank.policy->choose(rank.state);
  if (const Op* op = decision.op()) {
    const Edge* edge = outgoing(*op);
    if (edge == nullptr || edge->from == edge->to || edge->credits > 0) return start(number, decision);
    if (!rank.blocked_since) rank.blocked_since = now_;
    rank.blocked = decision;
  } else if (decision.deadline() != Decision::never) {
    events_.push({std::max(decision.deadline(), now_ + 1), number, 0, 0, Event::Kind::timer});
  }
}

void Simulator::start(std::uint32_t number, const Decision& decision) {
  RankRun& rank = ranks_[number];
  const Op& op = *decision.op();
  if (!rank.state.inputs_ready(op))
    throw ScheduleError(
        fmt::format("rank {}: the policy names {} whose inputs are not there", number, to_string(op)));
  if (op.kind == OpKind::forward && rank.state.free_slots() == 0)
    throw ScheduleError(fmt::format("rank {}: the policy names {} but all {} slots are taken", number,
                                    to_string(op), rank.state.slots()));
  count_gap(rank, op);
  if (decision.was_held()) record(TraceKind::held, number, op, decision.held_since(), now_);
  if (Edge* edge = outgoing(op); edge != nullptr && edge->from != edge->to && settings_.credits != 0)
    --edge->credits;
  rank.state.mark_issued(op);
  if (decision.holds_weight()) rank.state.mark_held(op.stage, op.microbatch);
  rank.times.peak_in_flight = std::max(rank.times.peak_in_flight, rank.state.in_flight());
  rank.busy = true;
  rank.running = op;
  rank.op_start = now_;
  ++computing_;
  if (settings_.record) result_.executed[number].push_back(op);
  if (leaves_early(op))
    after(cost(Op{op.microbatch, op.stage, OpKind::backward_input, false}),
          {0, number, op.microbatch, op.stage, Event::Kind::gradient_leaves});
  after(cost(op), {0, number, 0, 0, Event::Kind::op_done});
}

// Plans an event for when an op that starts now has got so much computing time.
void Simulator::after(Nanoseconds computing, const Event& event) {
  if (settings_.cores == 0) {
    Event at = event;
    at.time = now_ + computing;
    events_.push(at);
  } else {
    work_events_.push({work_ + static_cast<double>(computing), event});
  }
}

// The share of a core that every rank at work gets.
double Simulator::speed() const noexcept {
  return computing_ > settings_.cores ? static_cast<double>(settings_.cores) / computing_ : 1.0;
}

Nanoseconds Simulator::next_work_time() const {
  return now_ + std::max<Nanoseconds>(0, std::llround((work_events_.top().work - work_) / speed()));
}

void Simulator::advance(Nanoseconds time) {
  if (settings_.cores != 0) work_ += static_cast<double>(time - now_) * speed();
  now_ = time;
}

void Simulator::count_gap(RankRun& rank, const Op& op) {
  const auto blocked_since = std::exchange(rank.blocked_since, std::nullopt);
  if (!std::exchange(rank.started, true)) {
    rank.times.first_start = rank.times.ramp_up = now_;
    return;
  }
  const Nanoseconds gap = now_ - rank.idle_since;
  if (gap == 0) return;
  Nanoseconds caused = now_;  // when nothing but a transfer or a credit was missing any more
  if (const Edge* edge = incoming(op); edge != nullptr && !edge->produced.empty())
    caused = edge->produced[op.microbatch];
  if (blocked_since) caused = std::min(caused, *blocked_since);
  const Nanoseconds dependency = std::clamp<Nanoseconds>(caused - rank.idle_since, 0, gap);
  rank.times.dependency_wait += dependency;
  rank.times.transfer_wait += gap - dependency;
  record(TraceKind::waiting, rank.state.rank(), op, rank.idle_since, now_);
}

void Simulator::finish_op(std::uint32_t number) {
  RankRun& rank = ranks_[number];
  const Op op = rank.running;
  rank.busy = false;
  --computing_;
  rank.idle_since = rank.times.last_end = now_;
  rank.times.busy += now_ - rank.op_start;
  record(TraceKind::executed, number, op, rank.op_start, now_);
  rank.state.mark_completed(op);
  if (Edge* edge = outgoing(op); edge != nullptr && !leaves_early(op))
    send(*edge, op.kind == OpKind::forward ? activation : gradient, op.stage, op.microbatch);
  const bool training = settings_.phase == Phase::train;
  if (op.kind == OpKind::backward || op.kind == OpKind::backward_weight || !training) --rank.pairs_left;
  if (settings_.credits != 0) {
    // the received input is part of the slot until I; the received gradient is used up by I
    const bool input_free =
        training ? op.kind == OpKind::backward || op.kind == OpKind::backward_input : true;
    if (input_free && op.stage > 0) return_credit(*activations_from(op.stage - 1));
    if (input_free && training && op.stage + 1u < schedule_.stage_count)
      return_credit(*gradients_from(op.stage + 1));
  }
  queue(number);
}

void Simulator::return_credit(Edge& edge) {
  if (edge.from == edge.to) return;
  ++edge.credits;
  queue(edge.from);
}

void Simulator::send(Edge& edge, OpKind kind, std::uint16_t stage, std::uint32_t microbatch) {
  const auto target = static_cast<std::uint16_t>(kind == activation ? stage + 1 : stage - 1);
  if (edge.from == edge.to) return arrive(edge.to, kind, target, microbatch);
  if (!transfers_take_time_) return arrive(edge.to, kind, target, microbatch);
  LinkState& link = links_[edge.link];
  edge.produced[microbatch] = now_;
  link.free_at = std::max(link.free_at, now_);
  if (link.link.bytes_per_second > 0)
    link.free_at += std::llround(static_cast<double>(edge.bytes) / link.link.bytes_per_second * 1e9);
  const Nanoseconds latency =
      jittered(link.link.latency, settings_.latency_jitter, message_random_, stage, kind, microbatch);
  events_.push({link.free_at + latency, edge.to, microbatch, target,
                kind == activation ? Event::Kind::activation_arrived : Event::Kind::gradient_arrived});
}

void Simulator::arrive(std::uint32_t number, OpKind kind, std::uint16_t stage, std::uint32_t microbatch) {
  ranks_[number].state.mark_arrived(kind, stage, microbatch);
  queue(number);
}

void Simulator::standstill() const {
  std::string waiting;
  for (std::uint32_t rank = 0; rank < schedule_.ranks && waiting.size() < 1000; ++rank) {
    const RankRun& run = ranks_[rank];
    if (run.pairs_left == 0) continue;
    waiting +=
        fmt::format("; rank {} has {} micro-batches of its stages left and {} of {} slots taken{}", rank,
                    run.pairs_left, run.state.in_flight(), run.state.slots(),
                    run.blocked ? fmt::format(", {} waits for a credit", to_string(*run.blocked->op())) : "");
  }
  throw ScheduleError(fmt::format("{}: nothing can run any more{}", schedule_.name, waiting));
}

void Simulator::update_all() {
  Nanoseconds end = 0;
  for (const RankRun& rank : ranks_) end = std::max(end, rank.times.last_end);
  result_.makespan = end;
  const bool any_update =
      std::any_of(costs_.begin(), costs_.end(), [](const OpCosts& c) { return c.update > 0; });
  if (any_update && settings_.phase == Phase::train) {
    // the gradient norm goes to rank 0 and back
    const Nanoseconds norm_known = end + (schedule_.ranks > 1 ? 2 * settings_.link.latency : 0);
    const double slower =
        settings_.cores == 0 ? 1.0 : std::max(1.0, static_cast<double>(schedule_.ranks) / settings_.cores);
    for (RankRun& rank : ranks_) {
      for (const std::uint16_t stage : schedule_.stages_of[rank.state.rank()])
        rank.times.update += std::llround(static_cast<double>(costs_[stage].update) * slower);
      record(TraceKind::update, rank.state.rank(), Op{}, norm_known, norm_known + rank.times.update);
      result_.makespan = std::max(result_.makespan, norm_known + rank.times.update);
    }
  }
  for (RankRun& rank : ranks_) {
    rank.times.cool_down = result_.makespan - rank.times.last_end - rank.times.update;
    result_.ranks.push_back(rank.times);
  }
}

// Every border is crossed by every micro-batch, once in each direction (forward only in evaluation).
void Simulator::count_traffic() {
  std::map<std::pair<std::uint32_t, std::uint32_t>, LinkTraffic> traffic;
  const std::size_t step =
      settings_.phase == Phase::train ? 1 : 2;  // edges stand in pairs: activation, gradient
  for (std::size_t i = 0; i < edges_.size(); i += step) {
    const Edge& edge = edges_[i];
    if (edge.from == edge.to) continue;
    LinkTraffic& link = traffic[{edge.from, edge.to}];
    link.from = edge.from;
    link.to = edge.to;
    link.messages += schedule_.microbatches;
    link.bytes += schedule_.microbatches * edge.bytes;
  }
  for (const auto& [ends, link] : traffic) result_.links.push_back(link);
}

void Simulator::handle(const Event& event) {
  switch (event.kind) {
    case Event::Kind::op_done:
      return finish_op(event.rank);
    case Event::Kind::gradient_leaves:
      record(TraceKind::input_done, event.rank, ranks_[event.rank].running, now_, now_);
      if (event.stage > 0) send(*gradients_from(event.stage), gradient, event.stage, event.microbatch);
      return;
    case Event::Kind::activation_arrived:
    case Event::Kind::gradient_arrived: {
      const OpKind kind = event.kind == Event::Kind::activation_arrived ? activation : gradient;
      record(TraceKind::arrived, event.rank, Op{event.microbatch, event.stage, kind, false}, now_, now_);
      return arrive(event.rank, kind, event.stage, event.microbatch);
    }
    case Event::Kind::timer:
      return queue(event.rank);
  }
}

Simulation Simulator::run() {
  for (std::uint32_t rank = 0; rank < schedule_.ranks; ++rank) queue(rank);
  for (;;) {
    // everything that happens at one moment is marked before any rank is asked
    for (std::size_t i = 0; i < ready_.size(); ++i) ask(ready_[i]);
    ready_.clear();
    if (events_.empty() && work_events_.empty()) break;
    const bool work_first =
        !work_events_.empty() && (events_.empty() || next_work_time() <= events_.top().time);
    advance(work_first ? next_work_time() : events_.top().time);
    while (!events_.empty() && events_.top().time == now_) {
      const Event event = events_.top();
      events_.pop();
      handle(event);
    }
    while (!work_events_.empty() && next_work_time() == now_) {
      const Event event = work_events_.top().event;
      work_events_.pop();
      handle(event);
    }
  }
  for (const RankRun& rank : ranks_)
    if (rank.pairs_left > 0) standstill();
  update_all();
  count_traffic();
  std::stable_sort(result_.events.begin(), result_.events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.end < b.end; });
  return std::move(result_);
}

}  // namespace weft::simulation
