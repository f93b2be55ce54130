#include "weft/scheduling/orders/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <unordered_set>
#include <utility>

#include "weft/base/error.h"
#include "weft/scheduling/orders/communication_check.h"
#include "weft/scheduling/orders/standstill.h"
#include "weft/scheduling/weight_turns.h"

namespace weft {

namespace {

constexpr std::uint32_t nobody = UINT32_MAX;

std::uint8_t bit(OpKind kind) { return static_cast<std::uint8_t>(1u << static_cast<unsigned>(kind)); }

Op op_of(std::uint32_t stage, OpKind kind, std::uint32_t microbatch) {
  return Op{microbatch, static_cast<std::uint16_t>(stage), kind, false};
}

class Checker {
 public:
  explicit Checker(const OrderText& text) : text_(text) {}

  Schedule check() {
    find_owners();
    refuse_too_few();
    find_repeats();
    find_missing();
    for (std::size_t rank = 0; rank < text_.order.size(); ++rank) check_sequence(rank);
    return std::move(schedule_);
  }

 private:
  void find_owners();
  void refuse_too_few() const;
  void find_repeats();
  void find_missing() const;
  void check_sequence(std::size_t rank) const;

  [[nodiscard]] std::size_t pair(const Op& op) const {
    return std::size_t{op.stage} * schedule_.microbatches + op.microbatch;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw ScheduleError(fmt::format("{}: {}", text_.name, what));
  }
  [[noreturn]] void fail_missing(std::uint32_t stage, const char* what, std::uint32_t microbatch) const {
    const std::uint32_t rank = schedule_.rank_of[stage];
    fail(fmt::format(
        "{}{}{} is missing: row {} (rank {}) owns stage {}, and the file has micro-batches 0 to {}", stage,
        what, microbatch, text_.rows[rank], rank, stage, schedule_.microbatches - 1));
  }

  const OrderText& text_;
  Schedule schedule_;
  std::vector<std::uint8_t> seen_;  // bits of the kinds of ops of every (stage, micro-batch)
};

void Checker::find_owners() {
  schedule_.name = text_.name;
  schedule_.ranks = static_cast<std::uint32_t>(text_.order.size());
  schedule_.stages_of.resize(schedule_.ranks);
  std::vector<std::size_t> first_op;  // [stage]
  for (std::uint32_t rank = 0; rank < schedule_.ranks; ++rank)
    for (std::size_t i = 0; i < text_.order[rank].size(); ++i) {
      const Op& op = text_.order[rank][i];
      schedule_.microbatches = std::max(schedule_.microbatches, op.microbatch + 1);
      if (op.stage >= schedule_.rank_of.size()) {
        schedule_.rank_of.resize(op.stage + 1u, nobody);
        first_op.resize(op.stage + 1u, 0);
      }
      std::uint32_t& owner = schedule_.rank_of[op.stage];
      if (owner == nobody) {
        owner = rank;
        first_op[op.stage] = i;
        schedule_.stages_of[rank].push_back(op.stage);
      } else if (owner != rank) {
        fail(fmt::format("stage {} is on two ranks: {} and {}", op.stage,
                         text_.place(owner, first_op[op.stage]), text_.place(rank, i)));
      }
    }
  schedule_.stage_count = static_cast<std::uint32_t>(schedule_.rank_of.size());
  for (std::uint32_t stage = 0; stage < schedule_.stage_count; ++stage)
    if (schedule_.rank_of[stage] == nobody)
      fail(fmt::format("stage {} is missing; the last one is {}", stage, schedule_.stage_count - 1));
  for (auto& stages : schedule_.stages_of) std::sort(stages.begin(), stages.end());
  for (std::uint32_t rank = 0; rank < schedule_.ranks; ++rank)
    if (schedule_.stages_of[rank].empty()) fail(fmt::format("rank {} has no stage", rank));
}

// One op far out (0F16000000) must not make the tables below large: a complete file has two ops for every
// pair.
void Checker::refuse_too_few() const {
  std::size_t ops = 0;
  for (const RankOrder& rank : text_.order) ops += rank.size();
  if (std::uint64_t{2} * schedule_.stage_count * schedule_.microbatches <= ops) return;
  std::unordered_set<std::uint64_t> there;
  for (const RankOrder& rank : text_.order)
    for (const Op& op : rank)
      there.insert((std::uint64_t{op.stage} << 32 | op.microbatch) << 1 |
                   (op.kind == OpKind::forward ? 0 : 1));
  for (std::uint32_t microbatch = 0; microbatch < schedule_.microbatches; ++microbatch)
    for (std::uint32_t stage = 0; stage < schedule_.stage_count; ++stage)
      for (const bool backward : {false, true})
        if (!there.contains((std::uint64_t{stage} << 32 | microbatch) << 1 | (backward ? 1 : 0)))
          fail_missing(stage, backward ? "B" : "F", microbatch);
  fail("there are too few ops");
}

void Checker::find_repeats() {
  seen_.assign(std::size_t{schedule_.stage_count} * schedule_.microbatches, 0);
  for (std::size_t rank = 0; rank < text_.order.size(); ++rank)
    for (std::size_t i = 0; i < text_.order[rank].size(); ++i) {
      const Op& op = text_.order[rank][i];
      std::uint8_t& seen = seen_[pair(op)];
      if ((seen & bit(op.kind)) != 0) fail(fmt::format("{} is repeated", text_.place(rank, i)));
      seen |= bit(op.kind);
      const bool whole = (seen & bit(OpKind::backward)) != 0;
      const bool split = (seen & (bit(OpKind::backward_input) | bit(OpKind::backward_weight))) != 0;
      if (whole && split)
        fail(fmt::format("{} repeats a part of the backward: a B is an I and a W together",
                         text_.place(rank, i)));
    }
}

void Checker::find_missing() const {
  for (std::uint32_t stage = 0; stage < schedule_.stage_count; ++stage)
    for (std::uint32_t k = 0; k < schedule_.microbatches; ++k) {
      const std::uint8_t seen = seen_[pair(op_of(stage, OpKind::forward, k))];
      const bool input = (seen & bit(OpKind::backward_input)) != 0;
      const bool weight = (seen & bit(OpKind::backward_weight)) != 0;
      if ((seen & bit(OpKind::forward)) == 0) fail_missing(stage, "F", k);
      if ((seen & bit(OpKind::backward)) != 0 || (input && weight)) continue;
      fail_missing(stage, !input && !weight ? "B" : input ? "W" : "I", k);
    }
}

void Checker::check_sequence(std::size_t rank) const {
  std::vector<std::uint8_t> done(schedule_.stages_of[rank].size() * schedule_.microbatches, 0);
  const auto& stages = schedule_.stages_of[rank];
  for (std::size_t i = 0; i < text_.order[rank].size(); ++i) {
    const Op& op = text_.order[rank][i];
    const auto at =
        static_cast<std::size_t>(std::lower_bound(stages.begin(), stages.end(), op.stage) - stages.begin());
    std::uint8_t& bits = done[at * schedule_.microbatches + op.microbatch];
    const OpKind before = op.kind == OpKind::backward_weight ? OpKind::backward_input : OpKind::forward;
    if (op.kind != OpKind::forward && (bits & bit(before)) == 0)
      fail(fmt::format("{} comes before {}", text_.place(rank, i),
                       to_string(op_of(op.stage, before, op.microbatch))));
    bits |= bit(op.kind);
  }
}

/// Ranks that take turns: each runs one step (op or fused pair) a round if its inputs are there.
class Turns {
 public:
  Turns(const Order& order, const std::vector<std::uint32_t>& rank_of, std::uint32_t microbatches)
      : order_(order), rank_of_(rank_of), microbatches_(microbatches), heads_(order.size(), 0) {
    done_.assign(rank_of.size() * microbatches, 0);
  }

  std::vector<Turn> play();

  /// After play(): the ranks that stand still, as a chain from one to the next that ends where it began.
  /// Empty when none does.
  [[nodiscard]] std::string describe_cycle(const OrderText& text) const;

 private:
  [[nodiscard]] bool is_done(std::uint32_t stage, OpKind kind, std::uint32_t microbatch) const {
    return (done_[std::size_t{stage} * microbatches_ + microbatch] & bit(kind)) != 0;
  }
  /// An op that has to run before the rank's next step, if there is one. I stands for B too.
  [[nodiscard]] std::optional<Op> missing_input(std::uint32_t rank) const;
  void finish(const Op& op) {
    const OpKind kind = op.kind == OpKind::backward ? OpKind::backward_input : op.kind;
    done_[std::size_t{op.stage} * microbatches_ + op.microbatch] |= bit(kind);
  }

  const Order& order_;
  const std::vector<std::uint32_t>& rank_of_;
  std::uint32_t microbatches_;
  std::vector<std::uint32_t> heads_;
  std::vector<std::uint8_t> done_;
};

std::optional<Op> Turns::missing_input(std::uint32_t rank) const {
  const RankOrder& list = order_[rank];
  const std::size_t head = heads_[rank];
  const std::size_t length = list[head].fused_with_next ? 2 : 1;
  for (std::size_t i = head; i < head + length; ++i) {
    const Op& op = list[i];
    if (op.kind == OpKind::backward_weight) continue;  // after its I on the same rank
    const bool forward = op.kind == OpKind::forward;
    if (forward ? op.stage == 0 : op.stage + 1u == rank_of_.size()) continue;
    const std::uint32_t stage = forward ? op.stage - 1u : op.stage + 1u;
    const OpKind kind = forward ? OpKind::forward : OpKind::backward_input;
    if (!is_done(stage, kind, op.microbatch)) return op_of(stage, kind, op.microbatch);
  }
  return std::nullopt;
}

std::vector<Turn> Turns::play() {
  std::vector<Turn> turns;
  // Ranks to ask in this round and in the next, lowest first; a rank that waits is in neither until an op of
  // a neighbouring stage has run.
  std::vector<std::uint32_t> round, next;
  std::vector<std::uint8_t> listed(order_.size(), 1);
  for (std::uint32_t rank = 0; rank < order_.size(); ++rank) round.push_back(rank);
  const auto later = std::greater<std::uint32_t>();
  std::make_heap(round.begin(), round.end(), later);
  while (!round.empty()) {
    std::pop_heap(round.begin(), round.end(), later);
    const std::uint32_t rank = round.back();
    round.pop_back();
    listed[rank] = 0;
    const RankOrder& list = order_[rank];
    if (heads_[rank] < list.size() && !missing_input(rank)) {
      turns.push_back({rank, heads_[rank]});
      const std::size_t length = list[heads_[rank]].fused_with_next ? 2 : 1;
      listed[rank] = 1;
      next.push_back(rank);
      for (std::size_t i = 0; i < length; ++i) {
        const Op& op = list[heads_[rank]++];
        finish(op);
        const std::uint32_t neighbour = op.kind == OpKind::forward ? op.stage + 1u : op.stage - 1u;
        if (op.kind == OpKind::backward_weight || neighbour >= rank_of_.size()) continue;
        const std::uint32_t waiting = rank_of_[neighbour];
        if (std::exchange(listed[waiting], std::uint8_t{1}) != 0) continue;
        if (waiting < rank) {
          next.push_back(waiting);
        } else {
          round.push_back(waiting);
          std::push_heap(round.begin(), round.end(), later);
        }
      }
    }
    if (!round.empty()) continue;
    std::swap(round, next);
    std::make_heap(round.begin(), round.end(), later);
  }
  return turns;
}

std::string Turns::describe_cycle(const OrderText& text) const {
  std::uint32_t rank = 0;
  while (rank < order_.size() && heads_[rank] == order_[rank].size()) ++rank;
  if (rank == order_.size()) return {};
  return describe_standstill(rank, [&](std::uint32_t waiting) {
    const Op missing = *missing_input(waiting);  // a rank that stands still misses something
    const std::uint32_t owner = rank_of_[missing.stage];
    const RankOrder& list = order_[owner];
    const auto wanted = std::find_if(list.begin(), list.end(), [&](const Op& op) {
      return op.stage == missing.stage && op.microbatch == missing.microbatch &&
             (op.kind == missing.kind ||
              (op.kind == OpKind::backward && missing.kind == OpKind::backward_input));
    });
    return Wait{text.place(waiting, heads_[waiting]),
                text.place(owner, static_cast<std::size_t>(wanted - list.begin())), owner};
  });
}

}  // namespace

std::vector<Turn> play_in_turns(const Order& order, const std::vector<std::uint32_t>& rank_of,
                                std::uint32_t microbatches) {
  return Turns(order, rank_of, microbatches).play();
}

Schedule check_order(const OrderText& text) {
  Schedule schedule = Checker(text).check();
  Turns turns(text.order, schedule.rank_of, schedule.microbatches);
  turns.play();
  if (const std::string chain = turns.describe_cycle(text); !chain.empty())
    throw ScheduleError(fmt::format("{}: ranks wait for each other for ever:{}", text.name, chain));
  check_communication(text, schedule);
  schedule.remark = communication_remark(text);
  schedule.order = text.order;
  count_slots(schedule);
  return schedule;
}

std::uint32_t smallest_slots(const Schedule& schedule) {
  std::uint32_t slots = 1;
  for (std::uint32_t rank = 0; rank < schedule.ranks; ++rank)
    slots = std::max(slots, schedule.dynamic ? static_cast<std::uint32_t>(schedule.stages_of[rank].size())
                                             : schedule.peaks[rank].in_flight);
  return slots;
}

void check_slots(const Schedule& schedule, std::uint32_t slots, const OrderText* text) {
  const std::uint32_t smallest = smallest_slots(schedule);
  if (slots >= smallest) return;
  if (schedule.dynamic)
    throw ScheduleError(
        fmt::format("{} with {} slots per rank: every stage needs one; smallest number that works: {}",
                    schedule.name, slots, smallest));
  for (std::uint32_t rank = 0; rank < schedule.ranks; ++rank) {
    std::uint32_t in_flight = 0;
    for (const Op& op : as_run(schedule.order[rank])) {
      if (op.kind == OpKind::backward || op.kind == OpKind::backward_weight) --in_flight;
      if (op.kind != OpKind::forward || ++in_flight <= slots) continue;
      const RankOrder& list = schedule.order[rank];
      const auto at = static_cast<std::size_t>(std::find_if(list.begin(), list.end(),
                                                            [&](const Op& other) {
                                                              return other.kind == OpKind::forward &&
                                                                     other.stage == op.stage &&
                                                                     other.microbatch == op.microbatch;
                                                            }) -
                                               list.begin());
      throw ScheduleError(
          fmt::format("{} with {} slots per rank deadlocks: {} on rank {} never gets a slot, since the {} "
                      "pairs in flight end later "
                      "in the rank's order; smallest number that works: {}",
                      schedule.name, slots, text != nullptr ? text->place(rank, at) : to_string(op), rank,
                      slots, smallest));
    }
  }
}

}  // namespace weft
