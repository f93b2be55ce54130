// What a dynamic policy gains when messages come late: 1F1B, zero bubble and ready_first on four ranks
// (threads) whose ops are waits of a known length, so that neither cores nor caches disturb; messages are
// held back at random.
//
//   message_delays [milliseconds per op] [steps]
//
// Step times are medians, in units of one op; `plan` is the simulator's makespan without delays.
#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "weft/actors/rank.h"
#include "weft/actors/rank_threads.h"
#include "weft/base/clock.h"
#include "weft/base/error.h"
#include "weft/base/random.h"
#include "weft/bench/no_optimizer.h"
#include "weft/scheduling/simulation/simulator.h"

namespace weft {
namespace {

constexpr std::uint32_t ranks = 4;
constexpr std::uint32_t microbatches = 16;
constexpr std::uint32_t values = 256 * 1024;  // 1 MiB a message

void pause(Nanoseconds time) {
  const timespec length{0, static_cast<long>(time)};
  nanosleep(&length, nullptr);
}

/// A stage whose ops take their time and do nothing.
class TimedStage final : public Stage {
 public:
  TimedStage(std::uint16_t stage, std::uint16_t stages, Nanoseconds op)
      : first_(stage == 0), last_(stage + 1u == stages), op_(op * ranks / stages) {}
  StagePlan plan(const ShapeList&) override {
    StagePlan plan;
    if (!last_) plan.outputs.push_back({DType::float32, Shape{values}});
    return plan;
  }
  void allocate(Arena&, Queue&) override {}
  std::span<Parameter> parameters() override { return {}; }
  Task<StageOutput> forward(MicrobatchContext& context) override {
    work(context);
    co_return output(context, last_);
  }
  Task<StageOutput> backward_input(MicrobatchContext& context, TensorList) override {
    work(context);
    co_return output(context, first_);
  }
  Task<void> backward_weight(MicrobatchContext& context) override {
    work(context);
    co_return;
  }

 private:
  void work(const MicrobatchContext& context) const {
    for (const Nanoseconds end = now_ns() + op_; now_ns() < end; pause(50'000)) context.poll();
  }
  static StageOutput output(MicrobatchContext& context, bool none) {
    StageOutput output;
    if (!none) output.tensors.push_back(context.allocate(0, DType::float32, Shape{values}));
    return output;
  }
  bool first_;
  bool last_;
  Nanoseconds op_;
};

/// Holds every activation and gradient back for an exponentially distributed time.
class DelayedTransport final : public Transport {
 public:
  DelayedTransport(Transport& inner, Nanoseconds mean)
      : inner_(inner), mean_(mean), random_(17, RandomPurpose::simulation, inner.rank()) {}
  std::uint32_t rank() const noexcept override { return inner_.rank(); }
  std::uint32_t world_size() const noexcept override { return inner_.world_size(); }
  Capabilities capabilities() const override { return inner_.capabilities(); }
  Attachment attach(MessageSink& sink) override { return inner_.attach(sink); }
  void send(std::uint32_t to, const MessageHeader& header, ConstPayload payload, SendToken token) override {
    const bool delayed =
        mean_ > 0 && (header.kind == MessageKind::activation || header.kind == MessageKind::gradient);
    if (!delayed) return inner_.send(to, header, payload, token);
    const double late = -std::log(1.0 - random_.uniform(sent_++)) * static_cast<double>(mean_);
    held_.push_back({now_ns() + static_cast<Nanoseconds>(late), to, header, payload, token});
  }
  bool progress() override {
    const Nanoseconds now = now_ns();
    for (std::size_t i = 0; i < held_.size();) {
      if (held_[i].due > now) {
        ++i;
        continue;
      }
      const Held one = held_[i];
      held_.erase(held_.begin() + static_cast<std::ptrdiff_t>(i));
      inner_.send(one.to, one.header, one.payload, one.token);
    }
    return inner_.progress();
  }
  int descriptor() const noexcept override { return inner_.descriptor(); }
  bool arm() override {
    if (held_.empty()) return inner_.arm();
    pause(50'000);
    return false;
  }
  void wake() noexcept override { inner_.wake(); }
  void close(Nanoseconds deadline) override { inner_.close(deadline); }

 protected:
  bool let_go() noexcept override { return true; }  // the inner one has the sink

 private:
  struct Held {
    Nanoseconds due;
    std::uint32_t to;
    MessageHeader header;
    ConstPayload payload;
    SendToken token;
  };
  Transport& inner_;
  Nanoseconds mean_;
  CounterRandom random_;
  std::uint64_t sent_ = 0;
  std::vector<Held> held_;
};

ScheduleRequest request(const std::string& name, std::uint32_t max_in_flight) {
  ScheduleRequest wanted;
  wanted.schedule = name;
  wanted.ranks = ranks;
  wanted.microbatches = microbatches;
  wanted.max_in_flight = max_in_flight;
  return wanted;
}

/// The median step in units of one op.
double measured(const ScheduleRequest& wanted, Nanoseconds op, Nanoseconds delay, int steps) {
  const StageFactory stages = [op](std::uint16_t stage, std::uint16_t count) {
    return std::make_unique<TimedStage>(stage, count, op);
  };
  const OptimizerFactory optimizer = [] { return std::make_unique<NoOptimizer>(); };
  const PipelinePlan plan = plan_pipeline(make_schedule(wanted), stages, optimizer);
  std::vector<double> times;
  RankThreads threads(ranks);
  threads.run([&](std::uint32_t number, Transport& inner) {
    DelayedTransport transport(inner, delay);
    Rank rank(number, plan, stages, optimizer, transport, {});
    const LoopWatch watch = threads.watch(number, rank.loop());
    NoBatches data;
    for (int step = 1; step <= steps; ++step) {
      const Nanoseconds start = now_ns();
      rank.train(static_cast<std::uint64_t>(step), data);
      if (number == 0) times.push_back(static_cast<double>(now_ns() - start) / static_cast<double>(op));
    }
  });
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double planned(const ScheduleRequest& wanted) {
  const Schedule schedule = make_schedule(wanted);
  SimulationSettings settings;
  settings.early_gradient = true;
  const auto share = static_cast<Nanoseconds>(1'000'000 * ranks / schedule.stage_count);
  settings.stages = {OpCosts{share, share, share, 0}};
  return static_cast<double>(simulate(schedule, settings).makespan) / 1e6;
}

}  // namespace
}  // namespace weft

int main(int argc, char** argv) try {
  using namespace weft;
  const auto op = static_cast<Nanoseconds>((argc > 1 ? std::atof(argv[1]) : 5.0) * 1e6);
  const int steps = argc > 2 ? std::atoi(argv[2]) : 9;
  if (op <= 0 || steps <= 0) throw Error("usage: message_delays [milliseconds per op] [steps]");
  const struct {
    const char* label;
    double share;  // mean delay in ops
  } delays[] = {{"no delay", 0.0}, {"0.5 op", 0.5}, {"1 op", 1.0}, {"2 ops", 2.0}};
  const std::pair<const char*, std::uint32_t> schedules[] = {
      {"1f1b", 0}, {"zb_h1", 0}, {"zb_h2", 0}, {"ready_first", 4}, {"ready_first", 7}};
  fmt::print("| schedule | in flight | plan |");
  for (const auto& delay : delays) fmt::print(" {} |", delay.label);
  fmt::print("\n|---|---|---|---|---|---|---|\n");
  for (const auto& [name, slots] : schedules) {
    const ScheduleRequest wanted = request(name, slots);
    std::uint32_t in_flight = 0;
    for (const RankPeaks& peaks : make_schedule(wanted).peaks)
      in_flight = std::max(in_flight, peaks.in_flight);
    fmt::print("| `{}` | {} | {:.1f} |", name, in_flight, planned(wanted));
    for (const auto& delay : delays)
      fmt::print(
          " {:.1f} |",
          measured(wanted, op, static_cast<Nanoseconds>(delay.share * static_cast<double>(op)), steps));
    fmt::print("\n");
    std::fflush(stdout);
  }
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "message_delays: {}\n", e.what());
  return 1;
}
