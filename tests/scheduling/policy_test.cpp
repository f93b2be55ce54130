#include "weft/scheduling/policy.h"

#include <gtest/gtest.h>

#include <map>

#include "weft/base/error.h"
#include "weft/scheduling/orders/schedule.h"
#include "weft/scheduling/policies/in_turn_policy.h"
#include "weft/scheduling/simulation/simulator.h"
#include "weft/scheduling/weight_turns.h"

namespace weft {
namespace {

constexpr OpKind F = OpKind::forward;
constexpr OpKind B = OpKind::backward;
constexpr OpKind I = OpKind::backward_input;
constexpr OpKind W = OpKind::backward_weight;

Op op(std::uint16_t stage, OpKind kind, std::uint32_t microbatch) { return {microbatch, stage, kind, false}; }

TEST(RankState, answers_what_is_ready_issued_completed_and_in_flight) {
  RankState state(1, 4, {1, 3}, 2, 3);
  state.begin_step(Phase::train);
  EXPECT_FALSE(state.inputs_ready(op(1, F, 0)));
  state.mark_arrived(F, 1, 0);
  EXPECT_TRUE(state.inputs_ready(op(1, F, 0)));
  EXPECT_FALSE(state.inputs_ready(op(1, F, 1)));
  state.mark_issued(op(1, F, 0));
  EXPECT_EQ(state.in_flight(), 1u);
  EXPECT_EQ(state.free_slots(), 2u);
  EXPECT_TRUE(state.issued(op(1, F, 0)));
  EXPECT_FALSE(state.completed(op(1, F, 0)));
  state.mark_arrived(I, 1, 0);
  EXPECT_FALSE(state.inputs_ready(op(1, I, 0))) << "its F has not completed";
  state.mark_completed(op(1, F, 0));
  EXPECT_TRUE(state.inputs_ready(op(1, B, 0)));
  state.mark_issued(op(1, I, 0));
  EXPECT_FALSE(state.issued(op(1, B, 0)));
  state.mark_held(1, 0);
  EXPECT_TRUE(state.issued(op(1, B, 0)));
  EXPECT_FALSE(state.inputs_ready(op(1, W, 0)));
  state.mark_completed(op(1, I, 0));
  EXPECT_TRUE(state.inputs_ready(op(1, W, 0)));
  EXPECT_EQ(state.in_flight(), 1u);
  state.mark_completed(op(1, W, 0));
  EXPECT_EQ(state.in_flight(), 0u);
  EXPECT_TRUE(state.completed(op(1, B, 0)));
  EXPECT_EQ(state.next_weight(1), 1u);
  EXPECT_EQ(state.next_weight(3), 0u);

  state.mark_arrived(F, 3, 1);
  state.mark_issued(op(3, F, 1));
  EXPECT_FALSE(state.inputs_ready(op(3, B, 1)));
  state.mark_completed(op(3, F, 1));
  EXPECT_TRUE(state.inputs_ready(op(3, B, 1))) << "the last stage needs no gradient";
  state.mark_issued(op(3, B, 1));
  state.mark_completed(op(3, B, 1));
  EXPECT_EQ(state.next_weight(3), 0u) << "micro-batch 0 is still to come";

  state.begin_step(Phase::evaluate);
  EXPECT_FALSE(state.inputs_ready(op(1, F, 0)));
  state.mark_arrived(F, 1, 1);
  state.mark_issued(op(1, F, 1));
  state.mark_completed(op(1, F, 1));
  EXPECT_EQ(state.in_flight(), 0u) << "evaluation frees the slot after F";
}

// A rank of a single stage that has everything it needs at once.
RankOrder drive(Policy& policy, std::uint32_t microbatches) {
  RankState state(0, 1, {0}, microbatches, microbatches);
  state.begin_step(Phase::train);
  policy.begin_step(1, Phase::train);
  RankOrder executed;
  for (;;) {
    const Decision decision = policy.choose(state);
    if (decision.op() == nullptr) return executed;
    executed.push_back(*decision.op());
    state.mark_issued(*decision.op());
    if (decision.holds_weight()) state.mark_held(0, decision.op()->microbatch);
    state.mark_completed(*decision.op());
  }
}

/// Names each op of a list once, whatever the view says.
class ListPolicy final : public Policy {
 public:
  explicit ListPolicy(RankOrder list) : list_(std::move(list)) {}
  void begin_step(std::uint64_t, Phase) override { next_ = 0; }
  Decision choose(const RankView&) override {
    return next_ == list_.size() ? Decision::wait() : Decision::run(list_[next_++]);
  }

 private:
  RankOrder list_;
  std::size_t next_ = 0;
};

TEST(InTurnPolicy, holds_what_comes_out_of_turn_and_runs_it_as_soon_as_its_turn_comes) {
  const RankOrder wished{op(0, F, 0), op(0, F, 1), op(0, F, 2), op(0, I, 1),
                         op(0, W, 1), op(0, B, 2), op(0, B, 0)};
  const RankOrder expected{op(0, F, 0), op(0, F, 1), op(0, F, 2), op(0, I, 1),
                           op(0, I, 2), op(0, B, 0), op(0, W, 1), op(0, W, 2)};
  InTurnPolicy policy(std::make_unique<ListPolicy>(wished), {0}, 3);
  EXPECT_EQ(drive(policy, 3), expected);
  EXPECT_EQ(drive(policy, 3), expected) << "the second step is like the first";
  EXPECT_EQ(as_run(wished), expected);
}

TEST(InTurnPolicy, does_not_part_a_fused_pair) {
  RankOrder wished{op(0, F, 0), op(0, F, 1), op(0, B, 1), op(0, B, 0), op(0, F, 2), op(0, B, 2)};
  wished[3].fused_with_next = true;
  const RankOrder executed = as_run(wished);
  ASSERT_EQ(executed.size(), 7u);
  EXPECT_EQ(executed[3], wished[3]);
  EXPECT_EQ(executed[4], op(0, F, 2));
  EXPECT_EQ(executed[5], op(0, W, 1));
}

TEST(InTurnPolicy, waits_for_the_I_of_a_held_W_that_is_issued_but_not_completed) {
  InTurnPolicy policy(std::make_unique<ListPolicy>(RankOrder{op(0, B, 1), op(0, B, 0), op(0, F, 2)}), {0}, 3);
  RankState state(0, 1, {0}, 3, 3);
  policy.begin_step(1, Phase::train);
  for (const std::uint32_t k : {0u, 1u}) state.mark_completed(op(0, F, k));
  EXPECT_EQ(*policy.choose(state).op(), op(0, I, 1));
  EXPECT_EQ(*policy.choose(state).op(), op(0, B, 0));
  EXPECT_EQ(policy.choose(state).op(), nullptr);
  state.mark_completed(op(0, I, 1));
  EXPECT_EQ(*policy.choose(state).op(), op(0, W, 1));
  EXPECT_EQ(*policy.choose(state).op(), op(0, F, 2));
}

TEST(InTurnPolicy, refuses_a_policy_that_names_a_held_op_again) {
  InTurnPolicy policy(
      std::make_unique<ListPolicy>(RankOrder{op(0, F, 0), op(0, F, 1), op(0, B, 1), op(0, B, 1)}), {0}, 2);
  EXPECT_THROW(drive(policy, 2), ScheduleError);
}

/// Forward first, then backward from the newest micro-batch on, by what the view says alone: always out of
/// turn.
class NewestFirst final : public Policy {
 public:
  void begin_step(std::uint64_t, Phase) override {}
  Decision choose(const RankView& view) override {
    for (std::uint32_t k = 0; k < view.microbatches(); ++k)
      if (const Op f = op(view.stages()[0], F, k); !view.issued(f) && view.inputs_ready(f))
        return Decision::run(f);
    for (std::uint32_t k = view.microbatches(); k-- > 0;)
      if (const Op b = op(view.stages()[0], B, k); !view.issued(b) && view.inputs_ready(b))
        return Decision::run(b);
    return Decision::wait();
  }
};

void expect_weights_in_order(const Simulation& simulation, std::uint32_t microbatches) {
  std::map<std::uint16_t, std::uint32_t> next;
  for (const RankOrder& rank : simulation.executed)
    for (const Op& o : rank)
      if (o.kind == B || o.kind == W) {
        EXPECT_EQ(o.microbatch, next[o.stage]++) << to_string(o);
      }
  for (const auto& [stage, count] : next) EXPECT_EQ(count, microbatches) << stage;
}

TEST(InTurnPolicy, makes_a_policy_of_ones_own_exact_and_shows_what_it_held) {
  const Schedule schedule = make_schedule({.schedule = "afab", .ranks = 3, .microbatches = 5});
  SimulationSettings settings;
  settings.compute_jitter = 0.5;
  settings.slots = {5};
  const Simulation simulation = simulate(schedule, settings, [&](std::uint32_t rank) {
    return std::make_unique<InTurnPolicy>(std::make_unique<NewestFirst>(), schedule.stages_of[rank], 5);
  });
  expect_weights_in_order(simulation, 5);
  std::size_t held = 0;
  for (const TraceEvent& event : simulation.events) {
    if (event.kind != TraceKind::held) continue;
    ++held;
    EXPECT_EQ(event.op.kind, W);
    EXPECT_LT(event.start, event.end);
  }
  EXPECT_GT(held, 0u);
}

// The runtime's policies under random delays: a static order is followed to the letter, as as_run says, with
// the planned peaks, and W is always in turn.
TEST(OrderedPolicy, executes_its_order_and_the_planned_peaks_whatever_is_late) {
  for (const ScheduleInfo& info : all_schedules()) {
    if (info.dynamic) continue;
    for (std::uint32_t p = 1; p <= 4; ++p)
      for (std::uint32_t m = 1; m <= 3 * p + 1; ++m) {
        if (info.name == "dualpipe_v" && m < 2 * p) continue;
        const Schedule schedule =
            make_schedule({.schedule = std::string(info.name), .ranks = p, .microbatches = m});
        SimulationSettings settings;
        settings.compute_jitter = 0.3;
        settings.link.latency = 2'000'000;
        settings.latency_jitter = 1.0;
        settings.seed = p * 100 + m;
        const Simulation simulation = simulate(schedule, settings);
        ASSERT_EQ(simulation.executed, as_run(schedule.order)) << info.name << p << m;
        expect_weights_in_order(simulation, m);
        for (std::uint32_t r = 0; r < p; ++r)
          EXPECT_EQ(simulation.ranks[r].peak_in_flight, schedule.peaks[r].in_flight) << info.name << p << m;
      }
  }
}

TEST(Policies, evaluation_runs_every_forward_in_micro_batch_order_within_the_same_slots) {
  for (const ScheduleInfo& info : all_schedules())
    for (const std::uint32_t p : {1u, 2u, 4u}) {
      const std::uint32_t m = 2 * p + 1;
      const Schedule schedule =
          make_schedule({.schedule = std::string(info.name), .ranks = p, .microbatches = m});
      SimulationSettings settings;
      settings.phase = Phase::evaluate;
      const Simulation simulation = simulate(schedule, settings);
      std::map<std::uint16_t, std::uint32_t> next;
      for (const RankOrder& rank : simulation.executed)
        for (const Op& o : rank) {
          EXPECT_EQ(o.kind, F);
          EXPECT_EQ(o.microbatch, next[o.stage]++);
        }
      EXPECT_EQ(next.size(), schedule.stage_count);
      for (const auto& [stage, count] : next) EXPECT_EQ(count, m) << stage;
      const auto chunks = static_cast<std::uint32_t>(schedule.stages_of[0].size());
      EXPECT_LE(simulation.makespan, 1'000'000 * std::int64_t{chunks * m + (p - 1) * (2 * chunks - 1)})
          << info.name << ": waits for nothing but activations";
    }
}

TEST(ReadyFirstPolicy, never_comes_to_a_standstill_and_keeps_its_cap) {
  for (std::uint32_t p = 1; p <= 4; ++p)
    for (std::uint32_t v = 1; v <= 3; ++v)
      for (std::uint32_t m = 1; m <= 2 * p + 2; ++m)
        for (const std::uint32_t slots : {v, v + 1, v * p, 2 * v * p})
          for (const bool splits : {true, false}) {
            const Schedule schedule = make_schedule({.schedule = "ready_first",
                                                     .ranks = p,
                                                     .chunks = v,
                                                     .microbatches = m,
                                                     .max_in_flight = slots,
                                                     .stages_split_backward = splits});
            SimulationSettings settings;
            settings.compute_jitter = 0.3;
            settings.link.latency = 3'000'000;
            settings.latency_jitter = 1.5;
            settings.seed = p + 10 * v + 100 * m + 1000 * slots;
            settings.credits = slots;
            const Simulation simulation = simulate(schedule, settings);
            expect_weights_in_order(simulation, m);
            for (const RankTimes& rank : simulation.ranks) EXPECT_LE(rank.peak_in_flight, slots);
          }
}

TEST(ReadyFirstPolicy, is_faster_than_a_static_order_of_the_same_memory_when_messages_overtake_each_other) {
  SimulationSettings settings;
  settings.link.latency = 1'000'000;
  settings.latency_jitter = 1.0;
  settings.record = Record::nothing;
  const Schedule fixed = make_schedule({.schedule = "zb_h1", .ranks = 8, .microbatches = 32});
  const Schedule ready = make_schedule({.schedule = "ready_first", .ranks = 8, .microbatches = 32});
  double fixed_sum = 0;
  double ready_sum = 0;
  for (settings.seed = 1; settings.seed <= 20; ++settings.seed) {
    fixed_sum += static_cast<double>(simulate(fixed, settings).makespan);
    ready_sum += static_cast<double>(simulate(ready, settings).makespan);
  }
  EXPECT_LT(ready_sum, 0.95 * fixed_sum);
}

}  // namespace
}  // namespace weft
