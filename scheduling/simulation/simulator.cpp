#include "weft/scheduling/simulation/simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <utility>

#include "weft/base/error.h"
#include "weft/base/random.h"
#include "weft/scheduling/policies/ordered_policy.h"
#include "weft/scheduling/rank_view.h"

namespace weft {

namespace {

/// What a message feeds.
constexpr OpKind activation = OpKind::forward;
constexpr OpKind gradient = OpKind::backward_input;

/// One border in one direction: the messages between two neighbouring stages.
struct Edge {
  std::uint32_t from = 0;  // rank
  std::uint32_t to = 0;
  std::uint32_t link = 0;
  std::uint64_t bytes = 0;
  std::uint32_t credits = 0;
  std::vector<Nanoseconds> produced;  // [micro-batch], where the times of messages count
  std::vector<Nanoseconds> arrived;  // the same, for ranks that run ahead of the others; empty: when produced
};

struct LinkState {
  Link link;
  Nanoseconds free_at = 0;
};

struct Event {
  enum class Kind : std::uint8_t { op_done, gradient_leaves, activation_arrived, gradient_arrived, timer };
  Nanoseconds time;
  std::uint32_t rank;
  std::uint32_t microbatch;
  std::uint16_t stage;
  Kind kind;

  // ranks in turn at one moment: neighbours in memory, and the same result every time
  bool operator>(const Event& other) const noexcept {
    return time != other.time ? time > other.time : rank > other.rank;
  }
};

struct RankRun {
  RankRun(RankState rank_state, std::unique_ptr<Policy> rank_policy)
      : state(std::move(rank_state)), policy(std::move(rank_policy)) {}

  RankState state;
  std::unique_ptr<Policy> policy;
  std::uint64_t pairs_left = 0;
  std::uint64_t ops_done = 0;
  Op running;
  Nanoseconds op_start = 0;
  bool busy = false;
  bool queued = false;
  bool started = false;
  std::optional<Decision> blocked;           // chosen, waits for a credit
  std::optional<Nanoseconds> blocked_since;  // first, before the next op
  Nanoseconds idle_since = 0;
  RankTimes times;
};

/// An event of an op that takes computing time. `work` is the time that an op which runs all along would
/// have got so far.
struct WorkEvent {
  double work = 0;
  Event event;
  bool operator>(const WorkEvent& other) const noexcept {
    return work != other.work ? work > other.work : event > other.event;
  }
};

/// One run of one step.
class Simulator {
 public:
  Simulator(const Schedule& schedule, const SimulationSettings& settings, const PolicyFactory& policies);
  /// In the order of time, as policies that look at what has arrived need it.
  Simulation run();
  /// The same outcome (but for events, which are not recorded) for lists that are followed to the letter,
  /// where no rank waits for what another one frees: every rank runs as far as its inputs go, then a
  /// neighbour, so that few ranks at a time are at work and stay in the cache.
  Simulation run_rank_by_rank();

 private:
  void add_edges();
  void refuse_too_long() const;
  std::uint32_t link_between(std::uint32_t from, std::uint32_t to);
  void after(Nanoseconds computing, const Event& event);
  [[nodiscard]] double speed() const noexcept;
  [[nodiscard]] Nanoseconds next_work_time() const;
  void advance(Nanoseconds time);
  void handle(const Event& event);
  void queue(std::uint32_t rank);
  void ask(std::uint32_t rank);
  void start(std::uint32_t rank, const Decision& decision);
  void begin_op(std::uint32_t rank, const Decision& decision);
  void run_ahead(std::uint32_t rank);
  [[nodiscard]] Nanoseconds arrival(const Op& op);
  void keep_arrivals();
  Simulation finish();
  void count_gap(RankRun& rank, const Op& op);
  void finish_op(std::uint32_t rank);
  void send(Edge& edge, OpKind kind, std::uint16_t stage, std::uint32_t microbatch);
  void arrive(std::uint32_t rank, OpKind kind, std::uint16_t stage, std::uint32_t microbatch);
  void return_credit(Edge& edge);
  void record(TraceKind kind, std::uint32_t rank, const Op& op, Nanoseconds start, Nanoseconds end);
  void update_all();
  void count_traffic();
  [[noreturn]] void standstill() const;

  // Edges by the stage that sends: activations from `stage`, gradients from `stage`; null at the ends.
  Edge* activations_from(std::uint16_t stage) {
    return stage + 1u == schedule_.stage_count ? nullptr : &edges_[2u * stage];
  }
  Edge* gradients_from(std::uint16_t stage) { return stage == 0 ? nullptr : &edges_[2u * stage - 1u]; }
  Edge* outgoing(const Op& op) {
    if (op.kind == OpKind::backward_weight) return nullptr;
    return op.kind == OpKind::forward ? activations_from(op.stage) : gradients_from(op.stage);
  }
  Edge* incoming(const Op& op) {
    if (op.kind == OpKind::backward_weight) return nullptr;
    if (op.kind != OpKind::forward)
      return op.stage + 1u == schedule_.stage_count ? nullptr : gradients_from(op.stage + 1);
    return op.stage == 0 ? nullptr : activations_from(op.stage - 1);
  }
  [[nodiscard]] bool leaves_early(const Op& op) const {
    return settings_.early_gradient && op.kind == OpKind::backward;
  }
  [[nodiscard]] Nanoseconds cost(const Op& op) const;
  [[nodiscard]] Nanoseconds jittered(Nanoseconds time, double sigma, const CounterRandom& random,
                                     std::uint16_t stage, OpKind kind, std::uint32_t microbatch) const;

  const Schedule& schedule_;
  const SimulationSettings& settings_;
  const bool records_events_;
  std::vector<RankRun> ranks_;
  std::vector<Edge> edges_;
  std::vector<LinkState> links_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> link_numbers_;
  std::vector<OpCosts> costs_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::priority_queue<WorkEvent, std::vector<WorkEvent>, std::greater<>> work_events_;  // only with few cores
  double work_ = 0;
  std::uint32_t computing_ = 0;  // ranks
  std::vector<std::uint32_t> ready_;
  CounterRandom op_random_;
  CounterRandom message_random_;
  Nanoseconds now_ = 0;
  bool transfers_take_time_ = false;
  bool rank_by_rank_ = false;
  Simulation result_;
};

template <class T>
const T& of(const std::vector<T>& list, std::size_t i) {
  return list.size() == 1 ? list[0] : list[i];
}

void check_length(std::size_t length, std::size_t wanted, const char* what) {
  if (length != 1 && length != wanted)
    throw ScheduleError(
        fmt::format("simulation: {} values for {} {}; allowed: 1 or {}", length, wanted, what, wanted));
}

Simulator::Simulator(const Schedule& schedule, const SimulationSettings& settings,
                     const PolicyFactory& policies)
    : schedule_(schedule),
      settings_(settings),
      records_events_(settings.record == Record::events),
      op_random_(settings.seed, RandomPurpose::simulation, 0),
      message_random_(settings.seed, RandomPurpose::simulation, 1) {
  check_length(settings.stages.size(), schedule.stage_count, "stages");
  check_length(settings.border_bytes.size(), schedule.stage_count, "stages");
  if (!settings.slots.empty()) check_length(settings.slots.size(), schedule.ranks, "ranks");
  for (std::uint32_t stage = 0; stage < schedule.stage_count; ++stage) {
    const OpCosts& costs = of(settings.stages, stage);
    if (std::min({costs.forward, costs.input, costs.weight, costs.update}) < 0)
      throw ScheduleError(fmt::format("simulation: a cost of stage {} is negative", stage));
    costs_.push_back(costs);
  }
  add_edges();
  refuse_too_long();
  ranks_.reserve(schedule.ranks);
  for (std::uint32_t rank = 0; rank < schedule.ranks; ++rank) {
    const std::uint32_t slots =
        settings.slots.empty() ? schedule.peaks[rank].in_flight : of(settings.slots, rank);
    RankRun& run = ranks_.emplace_back(
        RankState(rank, schedule.stage_count, schedule.stages_of[rank], schedule.microbatches, slots),
        policies(rank));
    run.pairs_left = std::uint64_t{schedule.microbatches} * schedule.stages_of[rank].size();
    run.state.begin_step(settings.phase);
    run.policy->begin_step(1, settings.phase);
  }
  if (settings.record != Record::nothing) {
    result_.timeline.resize(schedule.ranks);
    for (std::uint32_t rank = 0; rank < schedule.order.size(); ++rank)
      result_.timeline[rank].expect(schedule.order[rank].size());
  }
  if (records_events_) result_.executed.resize(schedule.ranks);
}

std::uint32_t Simulator::link_between(std::uint32_t from, std::uint32_t to) {
  const auto [entry, is_new] =
      link_numbers_.try_emplace({from, to}, static_cast<std::uint32_t>(links_.size()));
  if (is_new) {
    LinkState& state = links_.emplace_back();
    state.link = settings_.link;
    for (const LinkBetween& other : settings_.links)
      if (other.from == from && other.to == to) state.link = other.link;
    if (state.link.latency < 0 || !(state.link.bytes_per_second >= 0))
      throw ScheduleError(
          fmt::format("simulation: the link from rank {} to {} has a negative cost", from, to));
    if (state.link.latency > 0 || state.link.bytes_per_second > 0) transfers_take_time_ = true;
  }
  return entry->second;
}

void Simulator::add_edges() {
  for (std::uint32_t stage = 0; stage + 1 < schedule_.stage_count; ++stage) {
    const std::uint32_t below = schedule_.rank_of[stage];
    const std::uint32_t above = schedule_.rank_of[stage + 1];
    for (const auto& [from, to] : {std::pair(below, above), std::pair(above, below)}) {
      Edge& edge = edges_.emplace_back();
      edge.from = from;
      edge.to = to;
      edge.bytes = of(settings_.border_bytes, stage);
      edge.credits = settings_.credits == 0 ? UINT32_MAX : settings_.credits;
      if (from != to) edge.link = link_between(from, to);
    }
  }
  if (transfers_take_time_)
    for (Edge& edge : edges_)
      if (edge.from != edge.to) edge.produced.assign(schedule_.microbatches, 0);
}

// Times stay in range even if all ops and messages come one after another.
void Simulator::refuse_too_long() const {
  double time = 2 * static_cast<double>(settings_.link.latency) * schedule_.stage_count;
  for (const OpCosts& costs : costs_)
    for (const Nanoseconds part : {costs.forward, costs.input, costs.weight, costs.update})
      time += static_cast<double>(part);
  if (time * schedule_.microbatches > 9e18)
    throw ScheduleError(
        "the costs of all ops add up to more than a clock holds; give all costs in a larger unit");
}

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
  if (records_events_) result_.events.push_back({start, end, op, rank, 1, kind, settings_.phase});
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
  begin_op(number, decision);
  const Op& op = ranks_[number].running;
  if (leaves_early(op))
    after(cost(Op{op.microbatch, op.stage, OpKind::backward_input, false}),
          {0, number, op.microbatch, op.stage, Event::Kind::gradient_leaves});
  after(cost(op), {0, number, 0, 0, Event::Kind::op_done});
}

void Simulator::begin_op(std::uint32_t number, const Decision& decision) {
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
  if (records_events_) result_.executed[number].push_back(op);
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
  if (const Edge* edge = incoming(op); edge != nullptr && transfers_take_time_ && edge->from != edge->to)
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
  if (settings_.record != Record::nothing) result_.timeline[number].add(op, rank.op_start, now_);
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
}

void Simulator::return_credit(Edge& edge) {
  if (edge.from == edge.to) return;
  ++edge.credits;
  queue(edge.from);
}

void Simulator::send(Edge& edge, OpKind kind, std::uint16_t stage, std::uint32_t microbatch) {
  const auto target = static_cast<std::uint16_t>(kind == activation ? stage + 1 : stage - 1);
  if (edge.from == edge.to) return arrive(edge.to, kind, target, microbatch);
  if (!edge.produced.empty()) edge.produced[microbatch] = now_;
  if (!transfers_take_time_) return arrive(edge.to, kind, target, microbatch);
  LinkState& link = links_[edge.link];
  link.free_at = std::max(link.free_at, now_);
  if (link.link.bytes_per_second > 0)
    link.free_at += std::llround(static_cast<double>(edge.bytes) / link.link.bytes_per_second * 1e9);
  const Nanoseconds latency =
      jittered(link.link.latency, settings_.latency_jitter, message_random_, stage, kind, microbatch);
  if (rank_by_rank_) {
    edge.arrived[microbatch] = link.free_at + latency;
    return arrive(edge.to, kind, target, microbatch);
  }
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
      finish_op(event.rank);
      return queue(event.rank);
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
  return finish();
}

// When what `op` needs from another rank is there.
Nanoseconds Simulator::arrival(const Op& op) {
  const Edge* edge = incoming(op);
  if (edge == nullptr || edge->from == edge->to) return 0;
  return edge->arrived.empty() ? edge->produced[op.microbatch] : edge->arrived[op.microbatch];
}

void Simulator::keep_arrivals() {
  for (Edge& edge : edges_) {
    if (edge.from == edge.to) continue;
    edge.produced.assign(schedule_.microbatches, 0);
    if (transfers_take_time_) edge.arrived.assign(schedule_.microbatches, 0);
  }
}

void Simulator::run_ahead(std::uint32_t number) {
  RankRun& rank = ranks_[number];
  rank.queued = false;
  while (rank.pairs_left > 0) {
    rank.state.set_now(rank.idle_since);
    const Decision decision = rank.policy->choose(rank.state);
    if (decision.op() == nullptr) return;
    const Op op = *decision.op();
    now_ = std::max(rank.idle_since, arrival(op));
    if (op.fused_with_next) {
      const Op& second = schedule_.order[number][rank.ops_done + 1];
      const bool waits_for_first = second.stage == op.stage && second.microbatch == op.microbatch;
      if (!waits_for_first) now_ = std::max(now_, arrival(second));
    }
    const Nanoseconds began = now_;
    begin_op(number, decision);
    if (leaves_early(op)) {
      now_ = began + cost(Op{op.microbatch, op.stage, OpKind::backward_input, false});
      if (Edge* edge = outgoing(op); edge != nullptr) send(*edge, gradient, op.stage, op.microbatch);
    }
    now_ = began + cost(op);
    finish_op(number);
    ++rank.ops_done;
  }
}

Simulation Simulator::run_rank_by_rank() {
  rank_by_rank_ = true;
  keep_arrivals();
  for (std::uint32_t rank = schedule_.ranks; rank-- > 0;) queue(rank);
  while (!ready_.empty()) {
    const std::uint32_t rank = ready_.back();
    ready_.pop_back();
    run_ahead(rank);
  }
  return finish();
}

Simulation Simulator::finish() {
  for (const RankRun& rank : ranks_)
    if (rank.pairs_left > 0) standstill();
  update_all();
  count_traffic();
  std::stable_sort(result_.events.begin(), result_.events.end(),
                   [](const TraceEvent& a, const TraceEvent& b) { return a.end < b.end; });
  return std::move(result_);
}

}  // namespace

Simulation simulate(const Schedule& schedule, const SimulationSettings& settings) {
  return simulate(schedule, settings, [&](std::uint32_t rank) { return make_policy(schedule, rank); });
}

Simulation simulate(const Schedule& schedule, const SimulationSettings& settings,
                    const PolicyFactory& policies) {
  return Simulator(schedule, settings, policies).run();
}

Simulation simulate_published(const Schedule& schedule, const SimulationSettings& settings) {
  SimulationSettings unbounded = settings;
  unbounded.slots = {UINT32_MAX};
  Simulator simulator(schedule, unbounded, [&](std::uint32_t rank) {
    return std::make_unique<OrderedPolicy>(schedule.order[rank]);
  });
  const bool only_inputs_count =
      settings.cores == 0 && settings.credits == 0 && settings.phase == Phase::train;
  return only_inputs_count && settings.record != Record::events ? simulator.run_rank_by_rank()
                                                                : simulator.run();
}

}  // namespace weft
