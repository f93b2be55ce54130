#pragma once
// The inside of the simulator; its users include simulator.h.
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "weft/base/random.h"
#include "weft/scheduling/rank_view.h"
#include "weft/scheduling/simulation/simulator.h"

namespace weft::simulation {

/// What a message feeds.
inline constexpr OpKind activation = OpKind::forward;
inline constexpr OpKind gradient = OpKind::backward_input;

/// One border in one direction: the messages between two neighbouring stages.
struct Edge {
  std::uint32_t from = 0;  // rank
  std::uint32_t to = 0;
  std::uint32_t link = 0;
  std::uint64_t bytes = 0;
  std::uint32_t credits = 0;
  std::vector<Nanoseconds> produced;  // [micro-batch], only where transfers take time
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
  Simulation run();

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
  Simulation result_;
};

}  // namespace weft::simulation
