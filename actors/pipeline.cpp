#include "weft/actors/pipeline.h"

#include <fmt/core.h>

#include <cmath>
#include <condition_variable>
#include <thread>

#include "weft/actors/rank_process.h"
#include "weft/actors/rank_threads.h"
#include "weft/base/cores.h"
#include "weft/base/error.h"

namespace weft {
namespace {

class GivenBatch final : public BatchSource {
 public:
  GivenBatch(std::span<const TensorList> inputs, std::span<const TensorList> targets) noexcept
      : inputs_(inputs), targets_(targets) {}
  const TensorList& inputs(std::uint32_t microbatch) override { return inputs_[microbatch]; }
  const TensorList& targets(std::uint32_t microbatch) override { return targets_[microbatch]; }

 private:
  std::span<const TensorList> inputs_;
  std::span<const TensorList> targets_;
};

PipelinePlan make_plan(const PipelineConfig& config) {
  if (!config.stages)
    throw ConfigError("PipelineConfig::stages is empty; allowed: a function that makes a stage");
  if (!config.optimizer)
    throw ConfigError("PipelineConfig::optimizer is empty; allowed: a function that makes an optimizer");
  if (config.clip_gradient && !(*config.clip_gradient > 0 && std::isfinite(*config.clip_gradient)))
    throw ConfigError(
        fmt::format("PipelineConfig::clip_gradient is {}; allowed: above 0, or none", *config.clip_gradient));
  ScheduleRequest request;
  request.schedule = config.schedule;
  request.ranks = config.ranks;
  request.chunks = config.chunks;
  request.microbatches = config.microbatches;
  request.max_in_flight = config.max_in_flight;
  return plan_pipeline(make_schedule(request), config.stages, config.optimizer);
}

/// What all processes must agree on.
std::string describe(const Schedule& schedule) {
  return fmt::format("{}, {} ranks, {} stages, {} micro-batches", schedule.name, schedule.ranks,
                     schedule.stage_count, schedule.microbatches);
}

RankOptions make_options(const PipelineConfig& config) {
  RankOptions options;
  options.clip_gradient = config.clip_gradient;
  options.policy = config.policy;
  return options;
}

}  // namespace

class Pipeline::Backend {
 public:
  explicit Backend(PipelineConfig given) : config(std::move(given)), plan(make_plan(config)) {}
  virtual ~Backend() = default;
  virtual StepReport step(GivenBatch batch) = 0;
  virtual double evaluate(GivenBatch batch) = 0;
  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  [[nodiscard]] virtual bool has_last_stage() const noexcept = 0;
  virtual std::vector<Parameter*> parameters() = 0;

  PipelineConfig config;
  PipelinePlan plan;
  std::uint64_t steps = 0;
  std::uint64_t passes = 0;
};

// One rank: this process.
class Pipeline::ProcessBackend final : public Backend {
 public:
  ProcessBackend(PipelineConfig given, const RankEnvironment& environment)
      : Backend(std::move(given)), process_(environment, {{"pipeline", describe(plan.schedule)}}) {
    if (environment.world_size != plan.schedule.ranks)
      throw ConfigError(
          fmt::format("this pipeline has {} ranks, it was launched with {}; allowed: weft launch -n {}",
                      plan.schedule.ranks, environment.world_size, plan.schedule.ranks));
    RankOptions options = make_options(config);
    options.spin = process_.spin();
    rank_ = std::make_unique<Rank>(process_.rank(), plan, config.stages, config.optimizer,
                                   process_.transport(), std::move(options));
    process_.watch(rank_->loop());
    rank_->actor().observe(&process_);
  }
  ~ProcessBackend() override {
    try {
      if (!failed_) process_.finish();
    } catch (const Error& e) {
      process_.report_failure(std::current_exception());
    }
    process_.unwatch();
  }

  StepReport step(GivenBatch batch) override {
    return guarded([&] { return StepReport(rank_->train(++steps, batch)); });
  }
  double evaluate(GivenBatch batch) override {
    return guarded([&] { return rank_->evaluate(++passes, batch); });
  }
  [[nodiscard]] std::uint32_t rank() const noexcept override { return process_.rank(); }
  [[nodiscard]] bool has_last_stage() const noexcept override {
    return plan.schedule.rank_of.back() == process_.rank();
  }
  std::vector<Parameter*> parameters() override {
    return {rank_->parameters().begin(), rank_->parameters().end()};
  }

 private:
  template <class Function>
  auto guarded(Function function) -> decltype(function()) {
    try {
      auto result = function();
      process_.outside();
      return result;
    } catch (...) {
      failed_ = true;
      process_.report_failure(std::current_exception());
      throw;
    }
  }

  RankProcess process_;
  std::unique_ptr<Rank> rank_;
  bool failed_ = false;
};

// All ranks are threads that wait for the next call.
class Pipeline::ThreadBackend final : public Backend {
 public:
  explicit ThreadBackend(PipelineConfig given)
      : Backend(std::move(given)), ranks_(plan.schedule.ranks), threads_(plan.schedule.ranks) {
    runner_ = std::thread([this] {
      try {
        threads_.run([this](std::uint32_t rank, Transport& transport) { serve(rank, transport); });
      } catch (...) {
        error_ = std::current_exception();
      }
      const std::scoped_lock lock(mutex_);
      ended_ = true;
      changed_.notify_all();
    });
    try {
      wait_for_all();
    } catch (...) {  // no destructor runs for an object that was not made
      runner_.join();
      throw;
    }
  }
  ~ThreadBackend() override {
    {
      const std::scoped_lock lock(mutex_);
      call_ = Call::leave;
      ++generation_;
      changed_.notify_all();
    }
    runner_.join();
    ranks_.clear();
  }

  StepReport step(GivenBatch batch) override {
    ++steps;
    perform(Call::train, batch);
    return ranks_[0]->report();
  }
  double evaluate(GivenBatch batch) override {
    ++passes;
    perform(Call::evaluate, batch);
    return loss_;
  }
  [[nodiscard]] std::uint32_t rank() const noexcept override { return 0; }
  [[nodiscard]] bool has_last_stage() const noexcept override { return true; }
  std::vector<Parameter*> parameters() override {
    std::vector<Parameter*> all;
    for (const auto& rank : ranks_)
      all.insert(all.end(), rank->parameters().begin(), rank->parameters().end());
    return all;
  }

 private:
  enum class Call { none, train, evaluate, leave };

  void serve(std::uint32_t number, Transport& transport) {
    RankOptions options = make_options(config);
    if (plan.schedule.ranks > usable_cores()) options.spin = 0;
    ranks_[number] =
        std::make_unique<Rank>(number, plan, config.stages, config.optimizer, transport, std::move(options));
    Rank& rank = *ranks_[number];
    threads_.watch(number, rank.loop());
    std::uint64_t seen = 0;
    for (;;) {
      Call call;
      {
        std::unique_lock lock(mutex_);
        ++idle_;
        changed_.notify_all();
        // A failure elsewhere ends the threads between calls, too.
        changed_.wait(lock, [&] { return generation_ != seen || threads_.failed(); });
        if (generation_ == seen) break;
        seen = generation_;
        call = call_;
      }
      if (call == Call::leave) break;
      if (call == Call::train) rank.train(steps, *batch_);
      if (call == Call::evaluate) {
        const double loss = rank.evaluate(passes, *batch_);
        if (number == plan.schedule.rank_of.back()) loss_ = loss;
      }
    }
    threads_.unwatch(number);
  }

  void perform(Call call, GivenBatch& batch) {
    if (error_) throw Error("this pipeline has failed before");
    batch_ = &batch;
    {
      const std::scoped_lock lock(mutex_);
      call_ = call;
      idle_ = 0;
      ++generation_;
      changed_.notify_all();
    }
    wait_for_all();
  }

  void wait_for_all() {
    std::unique_lock lock(mutex_);
    // The timeout only serves ranks that wait between calls while another one fails.
    while (!changed_.wait_for(lock, std::chrono::milliseconds(100),
                              [&] { return idle_ == plan.schedule.ranks || ended_; }))
      if (threads_.failed()) changed_.notify_all();
    if (ended_ && error_) {
      lock.unlock();
      std::rethrow_exception(error_);
    }
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
  RankThreads threads_;
  std::thread runner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Call call_ = Call::none;
  std::uint64_t generation_ = 0;
  std::uint32_t idle_ = 0;
  bool ended_ = false;
  std::exception_ptr error_;
  GivenBatch* batch_ = nullptr;
  double loss_ = 0;
};

Pipeline::Pipeline(PipelineConfig config) {
  if (const auto environment = rank_environment())
    backend_ = std::make_unique<ProcessBackend>(std::move(config), *environment);
  else
    backend_ = std::make_unique<ThreadBackend>(std::move(config));
}

Pipeline::~Pipeline() = default;

namespace {
void check(const PipelinePlan& plan, std::size_t inputs, std::size_t targets) {
  const std::uint32_t m = plan.schedule.microbatches;
  if (inputs != m || targets != m)
    throw Error(
        fmt::format("a step needs {} inputs and {} targets, one each per micro-batch; {} and {} were given",
                    m, m, inputs, targets));
}
}  // namespace

StepReport Pipeline::step(std::span<const TensorList> inputs, std::span<const TensorList> targets) {
  check(backend_->plan, inputs.size(), targets.size());
  return backend_->step(GivenBatch(inputs, targets));
}

double Pipeline::evaluate(std::span<const TensorList> inputs, std::span<const TensorList> targets) {
  check(backend_->plan, inputs.size(), targets.size());
  return backend_->evaluate(GivenBatch(inputs, targets));
}

const PipelinePlan& Pipeline::plan() const noexcept { return backend_->plan; }
std::uint32_t Pipeline::rank() const noexcept { return backend_->rank(); }
bool Pipeline::has_last_stage() const noexcept { return backend_->has_last_stage(); }
std::vector<Parameter*> Pipeline::parameters() { return backend_->parameters(); }

}  // namespace weft
