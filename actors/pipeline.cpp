#include "weft/actors/pipeline.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <map>
#include <mutex>
#include <thread>

#include "weft/actors/rank_process.h"
#include "weft/actors/rank_threads.h"
#include "weft/base/byte_order.h"
#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/tensor/host_values.h"

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

void check(const PipelineConfig& config, const std::optional<RankEnvironment>& launched) {
  if (!config.stages)
    throw ConfigError("PipelineConfig::stages is empty; allowed: a function that makes a stage");
  if (!config.optimizer)
    throw ConfigError("PipelineConfig::optimizer is empty; allowed: a function that makes an optimizer");
  if (config.clip_gradient && !(*config.clip_gradient > 0 && std::isfinite(*config.clip_gradient)))
    throw ConfigError(
        fmt::format("PipelineConfig::clip_gradient is {}; allowed: above 0, or none", *config.clip_gradient));
  if (config.transport != "auto" && config.transport != "ucx" && config.transport != "inproc")
    throw ConfigError(
        fmt::format("PipelineConfig::transport is {}; allowed: auto, ucx, inproc", config.transport));
  if (config.transport == "ucx" && !launched)
    throw ConfigError(
        fmt::format("PipelineConfig::transport is ucx, but no launcher has started this process; allowed: "
                    "weft launch -n {} -- PROGRAM, or inproc",
                    config.ranks));
  if (config.transport == "inproc" && launched && launched->mesh.world_size() > 1)
    throw ConfigError(fmt::format(
        "PipelineConfig::transport is inproc, but this is one of {} processes; allowed: auto, ucx",
        launched->mesh.world_size()));
}

PipelinePlan make_plan(const PipelineConfig& config) {
  ScheduleRequest request;
  request.schedule = config.schedule;
  request.ranks = config.ranks;
  request.chunks = config.chunks;
  request.microbatches = config.microbatches;
  if (!config.policy) request.max_in_flight = config.max_in_flight;
  Schedule schedule = make_schedule(request);
  if (config.policy && config.max_in_flight > 0) give_slots(schedule, config.max_in_flight);
  PipelinePlan plan = plan_pipeline(std::move(schedule), config.stages, config.optimizer);
  if (config.policy) plan.follows_order = false;
  return plan;
}

/// What all processes must agree on.
std::string describe(const PipelinePlan& plan) {
  const Schedule& schedule = plan.schedule;
  std::string slots;
  for (const RankPeaks& peaks : schedule.peaks) slots += fmt::format(" {}", peaks.in_flight);
  return fmt::format("{}, {} ranks, {} stages, {} micro-batches, slots{}", schedule.name, schedule.ranks,
                     schedule.stage_count, schedule.microbatches, slots);
}

RankOptions make_options(const PipelineConfig& config, std::uint32_t ranks_of_host) {
  RankOptions options;
  options.clip_gradient = config.clip_gradient;
  options.policy = config.policy;
  options.threads = config.threads != 0 ? config.threads : std::max(1u, usable_cores() / ranks_of_host);
  return options;
}

template <class T>
void append(std::string& text, T value) {
  std::byte bytes[sizeof(T)];
  store_le(bytes, value);
  text.append(reinterpret_cast<const char*>(bytes), sizeof(T));
}

// A rank's own parameters as text, and back; both ends are of the same build. On the rank's thread.
std::string to_text(Rank& rank) {
  std::string text;
  for (const Parameter* parameter : rank.parameters()) {
    if (!parameter->tied_to.empty()) continue;
    append(text, static_cast<std::uint64_t>(parameter->name.size()));
    text += parameter->name;
    append(text, static_cast<std::uint8_t>(parameter->dtype));
    append(text, static_cast<std::uint8_t>(parameter->shape.rank()));
    for (const std::uint32_t dim : parameter->shape.dims()) append(text, dim);
    const HostValues values = HostValues::read(parameter->queue, parameter->value_bytes());
    text.append(reinterpret_cast<const char*>(values.bytes().data()), values.bytes().size());
  }
  return text;
}

class ParameterReader {
 public:
  explicit ParameterReader(const std::string& text) noexcept : text_(text) {}
  [[nodiscard]] bool at_end() const noexcept { return at_ == text_.size(); }
  GatheredParameter next() {
    GatheredParameter parameter;
    parameter.name = take(number<std::uint64_t>());
    parameter.dtype = static_cast<DType>(number<std::uint8_t>());
    std::vector<std::uint32_t> dims(number<std::uint8_t>());
    for (std::uint32_t& dim : dims) dim = number<std::uint32_t>();
    parameter.shape = Shape(dims);
    const std::string values = take(parameter.shape.elements() * dtype_size(parameter.dtype));
    const auto* bytes = reinterpret_cast<const std::byte*>(values.data());
    parameter.bytes.assign(bytes, bytes + values.size());
    return parameter;
  }

 private:
  template <class T>
  T number() {
    return load_le<T>(reinterpret_cast<const std::byte*>(take(sizeof(T)).data()));
  }
  std::string take(std::uint64_t bytes) {
    if (bytes > text_.size() - at_) throw TransportError("a rank's parameters are cut short");
    at_ += bytes;
    return text_.substr(at_ - bytes, bytes);
  }
  const std::string& text_;
  std::size_t at_ = 0;
};

}  // namespace

class Pipeline::Backend {
 public:
  explicit Backend(PipelineConfig given) : config(std::move(given)), plan(make_plan(config)) {}
  virtual ~Backend() = default;

  /// Does `work` for every rank of this process, on its thread, all at once; the first exception ends them
  /// all, and the pipeline with them.
  void run(const std::function<void(Rank&)>& work) {
    if (!cause_.empty()) throw Error("this pipeline has failed before: " + cause_);
    try {
      for_each_rank(work);
    } catch (const std::exception& e) {
      cause_ = e.what();
      throw;
    } catch (...) {
      cause_ = "an unknown exception";
      throw;
    }
  }
  /// The ranks of this process, ascending.
  virtual std::vector<Rank*> ranks() = 0;
  /// The place of a rank among them.
  [[nodiscard]] std::size_t place(const Rank& rank) {
    const auto all = ranks();
    return static_cast<std::size_t>(std::find(all.begin(), all.end(), &rank) - all.begin());
  }
  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  [[nodiscard]] virtual bool has_last_stage() const noexcept = 0;
  /// Between processes; run() on every rank.
  virtual std::vector<std::string> gather(const std::string& mine) = 0;
  virtual std::string broadcast(const std::string& text) = 0;

  PipelineConfig config;
  PipelinePlan plan;
  std::uint64_t steps = 0;
  std::uint64_t passes = 0;
  std::vector<std::vector<TraceEvent>> events;  // [rank of this process]

 private:
  virtual void for_each_rank(const std::function<void(Rank&)>& work) = 0;
  std::string cause_;  // of the failure; empty while all is well
};

// One rank: this process.
class Pipeline::ProcessBackend final : public Backend {
 public:
  ProcessBackend(PipelineConfig given, const RankEnvironment& environment)
      : Backend(std::move(given)), process_(environment, {{"pipeline", describe(plan)}}) {
    try {
      make_rank(environment.local_world_size);
    } catch (...) {
      process_.report_failure(std::current_exception());
      throw;
    }
  }
  ~ProcessBackend() override {
    if (failed_) return;
    try {
      if (std::uncaught_exceptions() > exceptions_)
        throw Error("the program ends its pipeline by an exception of its own");
      process_.finish();
    } catch (...) {
      process_.report_failure(std::current_exception());
    }
  }

  std::vector<Rank*> ranks() override { return {rank_.get()}; }
  [[nodiscard]] std::uint32_t rank() const noexcept override { return process_.rank(); }
  [[nodiscard]] bool has_last_stage() const noexcept override {
    return plan.schedule.rank_of.back() == process_.rank();
  }
  std::vector<std::string> gather(const std::string& mine) override {
    std::vector<std::string> all;
    run([&](Rank& rank) {
      constexpr std::size_t piece = 32u << 20;  // of one message
      std::string most;
      for (const std::string& size : rank.gather_text(fmt::format("{:020}", mine.size())))
        most = std::max(most, size);
      const std::size_t largest = std::stoull(rank.broadcast_text(most));
      for (std::size_t at = 0; at == 0 || at < largest; at += piece) {
        const auto parts = rank.gather_text(mine.substr(std::min(at, mine.size()), piece));
        all.resize(parts.size());
        for (std::size_t i = 0; i < parts.size(); ++i) all[i] += parts[i];
      }
    });
    return all;
  }
  std::string broadcast(const std::string& text) override {
    std::string told;
    run([&](Rank& rank) { told = rank.broadcast_text(text); });
    return told;
  }

 private:
  void make_rank(std::uint32_t ranks_here) {
    if (process_.mesh().pipeline_ranks() != plan.schedule.ranks)
      throw ConfigError(
          fmt::format("this pipeline has {} ranks, it was launched with {}; allowed: weft launch -n {}",
                      plan.schedule.ranks, process_.mesh().pipeline_ranks(), plan.schedule.ranks));
    RankOptions options = make_options(config, ranks_here);
    options.spin = process_.spin();
    options.tell_failure = [this](std::exception_ptr error) { process_.report_failure(error); };
    rank_ = std::make_unique<Rank>(process_.rank(), plan, config.stages, config.optimizer,
                                   process_.transport(), std::move(options));
    watch_ = process_.watch(rank_->loop());
    rank_->actor().observe(&process_);
    events.resize(1);
  }

  void for_each_rank(const std::function<void(Rank&)>& work) override {
    try {
      work(*rank_);
      process_.outside();
    } catch (...) {
      failed_ = true;
      process_.report_failure(std::current_exception());
      throw;
    }
  }

  RankProcess process_;
  std::unique_ptr<Rank> rank_;
  LoopWatch watch_;
  bool failed_ = false;
  int exceptions_ = std::uncaught_exceptions();  // that were under way when this was made
};

// All ranks are threads that wait for the next call.
class Pipeline::ThreadBackend final : public Backend {
 public:
  explicit ThreadBackend(PipelineConfig given)
      : Backend(std::move(given)), threads_(plan.schedule.ranks), ranks_(plan.schedule.ranks) {
    events.resize(ranks_.size());
    runner_ = std::thread([this] {
      std::exception_ptr error;
      try {
        threads_.run([this](std::uint32_t rank, Transport& transport) { serve(rank, transport); });
      } catch (...) {
        error = std::current_exception();
      }
      const std::scoped_lock lock(mutex_);
      error_ = error;
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
      work_ = nullptr;
      ++generation_;
      changed_.notify_all();
    }
    runner_.join();
  }

  std::vector<Rank*> ranks() override {
    std::vector<Rank*> all;
    for (const auto& rank : ranks_) all.push_back(rank.get());
    return all;
  }
  [[nodiscard]] std::uint32_t rank() const noexcept override { return 0; }
  [[nodiscard]] bool has_last_stage() const noexcept override { return true; }
  std::vector<std::string> gather(const std::string& mine) override {
    run([](Rank&) {});
    return {mine};
  }
  std::string broadcast(const std::string& text) override {
    run([](Rank&) {});
    return text;
  }

 private:
  void serve(std::uint32_t number, Transport& transport) {
    RankOptions options = make_options(config, plan.schedule.ranks);
    if (plan.schedule.ranks > usable_cores()) options.spin = 0;
    options.tell_failure = [this, number](std::exception_ptr error) { threads_.fail(number, error); };
    ranks_[number] =
        std::make_unique<Rank>(number, plan, config.stages, config.optimizer, transport, std::move(options));
    Rank& rank = *ranks_[number];
    const LoopWatch watch = threads_.watch(number, rank.loop());
    std::uint64_t seen = 0;
    for (;;) {
      const std::function<void(Rank&)>* work = nullptr;
      {
        std::unique_lock lock(mutex_);
        ++idle_;
        changed_.notify_all();
        // A failure elsewhere ends the threads between calls, too.
        changed_.wait(lock, [&] { return generation_ != seen || threads_.failed(); });
        if (generation_ == seen) break;
        seen = generation_;
        work = work_;
      }
      if (work == nullptr) break;
      (*work)(rank);
    }
  }

  void for_each_rank(const std::function<void(Rank&)>& work) override {
    {
      const std::scoped_lock lock(mutex_);
      work_ = &work;
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

  RankThreads threads_;  // holds the transports, which the ranks need to their end
  std::vector<std::unique_ptr<Rank>> ranks_;
  std::thread runner_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(Rank&)>* work_ = nullptr;  // null: leave
  std::uint64_t generation_ = 0;
  std::uint32_t idle_ = 0;
  bool ended_ = false;
  std::exception_ptr error_;
};

Pipeline::Pipeline(PipelineConfig config) {
  const auto environment = rank_environment();
  check(config, environment);
  if (environment && config.transport != "inproc")
    backend_ = std::make_unique<ProcessBackend>(std::move(config), *environment);
  else
    backend_ = std::make_unique<ThreadBackend>(std::move(config));
}

Pipeline::~Pipeline() = default;

namespace {
void check_count(const PipelinePlan& plan, std::size_t inputs, std::size_t targets) {
  const std::uint32_t m = plan.schedule.microbatches;
  if (inputs != m || targets != m)
    throw Error(
        fmt::format("a step needs {} inputs and {} targets, one each per micro-batch; {} and {} were given",
                    m, m, inputs, targets));
}
}  // namespace

StepReport Pipeline::step(std::span<const TensorList> inputs, std::span<const TensorList> targets) {
  check_count(backend_->plan, inputs.size(), targets.size());
  GivenBatch batch(inputs, targets);
  const std::uint64_t step = backend_->steps + 1;
  backend_->run([&](Rank& rank) { rank.train(step, batch); });
  backend_->steps = step;
  return backend_->ranks().front()->report();
}

double Pipeline::evaluate(std::span<const TensorList> inputs, std::span<const TensorList> targets) {
  check_count(backend_->plan, inputs.size(), targets.size());
  GivenBatch batch(inputs, targets);
  const std::uint64_t pass = ++backend_->passes;
  double loss = 0;
  backend_->run([&](Rank& rank) {
    const double mean = rank.evaluate(pass, batch);
    if (rank.rank() == backend_->plan.schedule.rank_of.back()) loss = mean;
  });
  return loss;
}

std::uint64_t Pipeline::steps() const noexcept { return backend_->steps; }
void Pipeline::continue_after(std::uint64_t step) { backend_->steps = step; }
const PipelinePlan& Pipeline::plan() const noexcept { return backend_->plan; }
std::uint32_t Pipeline::rank() const noexcept { return backend_->rank(); }
bool Pipeline::has_last_stage() const noexcept { return backend_->has_last_stage(); }

std::vector<Parameter*> Pipeline::parameters() {
  std::vector<Parameter*> all;
  for (const Rank* rank : backend_->ranks())
    all.insert(all.end(), rank->parameters().begin(), rank->parameters().end());
  return all;
}

std::vector<OptimizerState> Pipeline::optimizer_state() {
  std::vector<OptimizerState> all;
  for (Rank* rank : backend_->ranks())
    for (OptimizerState& state : rank->optimizer().state()) all.push_back(std::move(state));
  return all;
}

void Pipeline::parameters_changed() {
  backend_->run([](Rank& rank) { rank.parameters_changed(); });
}

std::vector<GatheredParameter> Pipeline::gather_parameters() {
  std::vector<std::string> texts(backend_->events.size());
  backend_->run([&](Rank& rank) { texts[backend_->place(rank)] = to_text(rank); });
  std::string mine;
  for (const std::string& text : texts) mine += text;
  std::map<std::string, GatheredParameter> by_name;
  for (const std::string& text : backend_->gather(mine))
    for (ParameterReader reader(text); !reader.at_end();) {
      GatheredParameter parameter = reader.next();
      by_name.emplace(parameter.name, std::move(parameter));
    }
  std::vector<GatheredParameter> all;
  for (const auto& names : backend_->plan.parameters)
    for (const std::string& name : names)
      if (const auto found = by_name.find(name); found != by_name.end())
        all.push_back(std::move(found->second));
  return all;
}

std::vector<std::string> Pipeline::gather(const std::string& mine) { return backend_->gather(mine); }
std::string Pipeline::broadcast(const std::string& text) { return backend_->broadcast(text); }

void Pipeline::start_trace() {
  backend_->run([this](Rank& rank) { rank.actor().trace(&backend_->events[backend_->place(rank)]); });
}

std::vector<TraceEvent> Pipeline::stop_trace() {
  backend_->run([](Rank& rank) { rank.actor().trace(nullptr); });
  std::string mine;
  for (auto& events : backend_->events) {
    mine.append(reinterpret_cast<const char*>(events.data()), events.size() * sizeof(TraceEvent));
    events.clear();
  }
  std::vector<TraceEvent> all;
  for (const std::string& text : backend_->gather(mine)) {
    if (text.empty()) continue;
    const std::size_t at = all.size();
    all.resize(at + text.size() / sizeof(TraceEvent));
    std::memcpy(all.data() + at, text.data(), text.size());
  }
  return all;
}

}  // namespace weft
