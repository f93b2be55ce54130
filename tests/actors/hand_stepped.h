#pragma once
// All ranks of a pipeline on one thread, stepped by hand: deterministic, no sleeping, a standstill is seen at
// once.
#include <fmt/core.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "toy_model.h"
#include "weft/actors/rank.h"

namespace weft::toy {

/// Ranks over given transports. `advance` moves the time of a simulated network on; false when nothing is
/// under way.
class HandStepped {
 public:
  HandStepped(
      PipelinePlan pipeline_plan, ToyOptions toy, std::vector<Transport*> transports,
      std::function<bool()> advance = [] { return false; }, RankOptions options = {})
      : HandStepped(toy_stages(toy), std::move(pipeline_plan), std::move(transports), std::move(advance),
                    std::move(options)) {}
  HandStepped(const StageFactory& stages, PipelinePlan pipeline_plan, std::vector<Transport*> transports,
              std::function<bool()> advance, RankOptions options = {})
      : plan_(std::move(pipeline_plan)), advance_(std::move(advance)) {
    waits_.resize(plan_.schedule.ranks);
    for (std::uint32_t r = 0; r < plan_.schedule.ranks; ++r) {
      ranks_.push_back(std::make_unique<Rank>(r, plan_, stages, toy_optimizer(), *transports[r], options));
      ranks_.back()->actor().observe(&waits_[r]);
    }
  }

  /// One training step on all ranks; throws when the pipeline stands still.
  std::vector<StepReport> train(std::uint64_t step, BatchSource& data) {
    train_quietly(step, data);
    std::vector<StepReport> reports;
    for (auto& rank : ranks_) reports.push_back(rank->report());
    return reports;
  }
  /// The same without copies of the reports.
  void train_quietly(std::uint64_t step, BatchSource& data) {
    tasks_.clear();
    for (auto& rank : ranks_) tasks_.push_back(rank->train_step(step, data));
    drive(tasks_);
    for (auto& task : tasks_) task.result();
  }
  std::vector<double> evaluate(std::uint64_t pass, BatchSource& data) {
    std::vector<Task<double>> tasks;
    for (auto& rank : ranks_) tasks.push_back(rank->evaluate_pass(pass, data));
    drive(tasks);
    std::vector<double> losses;
    for (auto& task : tasks) losses.push_back(task.result());
    return losses;
  }
  Rank& rank(std::uint32_t r) { return *ranks_[r]; }
  const PipelinePlan& plan() const { return plan_; }

 private:
  template <class T>
  void drive(std::vector<Task<T>>& tasks) {
    for (std::size_t r = 0; r < tasks.size(); ++r) tasks[r].start(ranks_[r]->loop().ready());
    for (;;) {
      bool done = true;
      bool busy = false;
      for (std::size_t r = 0; r < tasks.size(); ++r) {
        if (ranks_[r]->loop().turn()) busy = true;
        if (tasks[r].done() && tasks[r].failed()) tasks[r].result();
        done &= tasks[r].done();
      }
      if (done) return;
      if (!busy && !advance_()) throw std::runtime_error("the pipeline stands still" + who_waits());
    }
  }
  std::string who_waits() const {
    std::string text;
    for (std::size_t r = 0; r < waits_.size(); ++r)
      text += fmt::format("; rank {} waits for {}", r, waits_[r].what);
    return text;
  }

  struct Wait final : ActorObserver {
    void working(std::uint64_t, const Op&) noexcept override { outside(); }
    void waiting(std::uint64_t, const char* for_what) noexcept override {
      std::snprintf(what, sizeof(what), "%s", for_what);
    }
    void outside() noexcept override { waiting(0, "nothing"); }
    char what[128] = "nothing";
  };

  PipelinePlan plan_;
  std::function<bool()> advance_;
  std::vector<Wait> waits_;
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::vector<Task<void>> tasks_;
};

inline PipelinePlan plan_of(const StageFactory& stages, const std::string& schedule, std::uint32_t ranks,
                            std::uint32_t microbatches, std::uint32_t chunks = 0) {
  ScheduleRequest request;
  request.schedule = schedule;
  request.ranks = ranks;
  request.chunks = chunks;
  request.microbatches = microbatches;
  return plan_pipeline(make_schedule(request), stages, toy_optimizer());
}
inline PipelinePlan toy_plan(const std::string& schedule, std::uint32_t ranks, std::uint32_t microbatches,
                             ToyOptions toy = {}, std::uint32_t chunks = 0) {
  return plan_of(toy_stages(toy), schedule, ranks, microbatches, chunks);
}

}  // namespace weft::toy
