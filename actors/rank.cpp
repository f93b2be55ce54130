#include "weft/actors/rank.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "weft/actors/gradient_range.h"
#include "weft/base/byte_order.h"
#include "weft/base/error.h"
#include "weft/scheduling/policies/in_turn_policy.h"

namespace weft {
namespace {

template <class T>
void append(std::vector<std::byte>& bytes, T value) {
  const std::size_t at = bytes.size();
  bytes.resize(at + sizeof(T));
  store_le(bytes.data() + at, value);
}

// Reads what append wrote; all of it comes from ranks of the same build.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> bytes) noexcept : bytes_(bytes) {}
  template <class T>
  T next() {
    if (at_ + sizeof(T) > bytes_.size())
      throw TransportError("a rank's share of the step's agreement is cut short");
    const T value = load_le<T>(bytes_.data() + at_);
    at_ += sizeof(T);
    return value;
  }

 private:
  std::span<const std::byte> bytes_;
  std::size_t at_ = 0;
};

// What a rank tells the others of a step; its losses follow, one double each.
struct Share {
  RankStatistics statistics;
  std::uint32_t losses = 0;
  std::uint32_t background_done = 0;
};

Mesh mesh_of(const PipelinePlan& plan, std::uint32_t world_size) {
  const std::uint32_t ranks = plan.schedule.ranks;
  if (world_size % ranks != 0)
    throw Error(fmt::format("{} ranks do not make whole pipelines of {}", world_size, ranks));
  return {ranks, world_size / ranks};
}

/// The plan's edges between the world's ranks, in the pipeline that `rank` belongs to.
std::vector<EdgePlan> edges_of(const PipelinePlan& plan, const Mesh& mesh, std::uint32_t rank) {
  std::vector<EdgePlan> edges = plan.edges;
  for (EdgePlan& edge : edges) {
    edge.source_rank = mesh.world_rank(edge.source_rank, mesh.replica_of(rank));
    edge.target_rank = mesh.world_rank(edge.target_rank, mesh.replica_of(rank));
  }
  return edges;
}

}  // namespace

Rank::Rank(std::uint32_t rank, const PipelinePlan& plan, const StageFactory& stages,
           const OptimizerFactory& optimizer, Transport& transport, RankOptions options)
    : rank_(rank),
      plan_(plan),
      mesh_(mesh_of(plan, transport.world_size())),
      options_(std::move(options)),
      loop_(transport, options_.spin),
      view_(pipeline_rank(), plan.schedule.stage_count, plan.schedule.stages_of[pipeline_rank()],
            plan.schedule.microbatches, plan.schedule.peaks[pipeline_rank()].in_flight),
      queue_(make_queue(options_.device)),
      arena_(plan.memory(pipeline_rank()).total(), fmt::format("rank {}", rank), options_.device),
      optimizer_(optimizer()) {
  try {
    make(stages, transport);
  } catch (...) {
    if (options_.tell_failure) options_.tell_failure(std::current_exception());
    throw;
  }
}

void Rank::make(const StageFactory& stages, Transport& transport) {
  for (const std::uint16_t stage : view_.stages()) {
    stages_.push_back(stages(stage, static_cast<std::uint16_t>(plan_.schedule.stage_count)));
    stages_.back()->plan(plan_.inputs[stage]);
    stages_.back()->allocate(arena_, *queue_);
    gradient_ranges_.push_back(gradient_range(stage, stages_.back()->parameters()));
    auto& gradients = gradients_.emplace_back();
    for (Parameter& parameter : stages_.back()->parameters()) {
      parameter.queue = queue_.get();
      parameters_.push_back(&parameter);
      gradients.push_back({parameter.gradient, parameter.shape.elements()});
    }
    own_squares_.resize(std::max(own_squares_.size(), gradients.size()));
  }
  optimizer_->allocate(parameters_, arena_, *queue_);
  mailbox_ = std::make_unique<Mailbox>(rank_, edges_of(plan_, mesh_, rank_), plan_.schedule.microbatches,
                                       arena_, loop_, transport, view_);
  std::unique_ptr<Policy> policy;
  if (options_.policy) {
    policy = options_.policy(plan_.schedule, pipeline_rank());
    if (!policy) throw Error(fmt::format("the policy factory made no policy for rank {}", pipeline_rank()));
    policy = std::make_unique<InTurnPolicy>(std::move(policy), plan_.schedule.stages_of[pipeline_rank()],
                                            plan_.schedule.microbatches);
  } else {
    policy = make_policy(plan_.schedule, pipeline_rank());
  }
  actor_ = std::make_unique<StageActor>(pipeline_rank(), plan_, stages_, std::move(policy), *mailbox_, view_,
                                        arena_, *queue_, options_.threads);
  pipeline_ =
      std::make_unique<Group>(GroupNumber::pipeline, mesh_.pipeline_of(rank_), rank_, mailbox_->side());

  // Tied gradients from other ranks land in memory of their own; the sum comes back straight into the second
  // use's gradient.
  tie_buffers_.resize(plan_.ties.size());
  tied_arrivals_.resize(plan_.ties.size());
  const std::uint32_t replica = mesh_.replica_of(rank_);
  for (std::uint32_t i = 0; i < plan_.ties.size(); ++i) {
    const TiedPair& tie = plan_.ties[i];
    const std::uint32_t first_rank = mesh_.world_rank(plan_.schedule.rank_of[tie.first_stage], replica);
    const std::uint32_t second_rank = mesh_.world_rank(plan_.schedule.rank_of[tie.second_stage], replica);
    if (first_rank == second_rank) continue;
    if (first_rank == rank_) {
      tie_buffers_[i] = arena_.take(tie.bytes);
      tied_arrivals_[i] = mailbox_->side().expect(MessageKind::tied_gradient, i, second_rank,
                                                  {tie_buffers_[i], queue_->device()}, tie.bytes);
    }
    if (second_rank == rank_) {
      float* second = parameter(tie.second_stage, tie.second_index).gradient;
      tied_arrivals_[i] =
          mailbox_->side().expect(MessageKind::tied_sum, i, first_rank,
                                  {reinterpret_cast<std::byte*>(second), queue_->device()}, tie.bytes);
    }
  }
}

Rank::~Rank() { mailbox_->leave(); }

Parameter& Rank::parameter(std::uint16_t stage, std::uint32_t index) {
  const auto stages = view_.stages();
  const auto at =
      static_cast<std::size_t>(std::lower_bound(stages.begin(), stages.end(), stage) - stages.begin());
  return stages_[at]->parameters()[index];
}

const StepReport& Rank::train(std::uint64_t step, BatchSource& data) {
  loop_.run(train_step(step, data));
  return report_;
}
double Rank::evaluate(std::uint64_t pass, BatchSource& data) { return loop_.run(evaluate_pass(pass, data)); }

Task<void> Rank::train_step(std::uint64_t step, BatchSource& data) {
  try {
    step_ = step;
    co_await actor_->run_step(step, Phase::train, data);
    actor_->wait_for_others();
    co_await exchange_tied();
    co_await agree();
    actor_->leave_step();
    const Nanoseconds agreed = loop_.now();
    double scale = 1.0;
    if (options_.clip_gradient)
      scale = std::min(1.0, *options_.clip_gradient / (report_.gradient_norm + 1e-6));
    optimizer_->update(step, scale);
    parameters_changed();
    actor_->trace_update(agreed, loop_.now());
  } catch (...) {
    loop_.end(std::current_exception());
    throw;
  }
}

Task<double> Rank::evaluate_pass(std::uint64_t pass, BatchSource& data) {
  try {
    co_await actor_->run_step(pass, Phase::evaluate, data);
    actor_->leave_step();
    double sum = 0;
    for (const double loss : actor_->record().losses) sum += loss;
    co_return sum / plan_.schedule.microbatches;
  } catch (...) {
    loop_.end(std::current_exception());
    throw;
  }
}

void Rank::parameters_changed() {
  for (auto& stage : stages_) stage->parameters_changed();
}

// The sum of a tied weight's gradients is first use + second use + third use ..., whoever holds them; then
// every use has it.
Task<void> Rank::exchange_tied() {
  SideChannel& side = mailbox_->side();
  const auto world_rank = [this](std::uint16_t stage) {
    return mesh_.world_rank(plan_.schedule.rank_of[stage], mesh_.replica_of(rank_));
  };
  const auto payload = [this](const float* values) {
    return ConstPayload{reinterpret_cast<const std::byte*>(values), queue_->device()};
  };
  const auto is_first = [this](const TiedPair& tie) { return owns(tie.first_stage); };
  const auto is_second = [this](const TiedPair& tie) {
    return owns(tie.second_stage) && !owns(tie.first_stage);
  };
  for (std::uint32_t i = 0; i < plan_.ties.size(); ++i) {
    const TiedPair& tie = plan_.ties[i];
    if (!is_second(tie)) continue;
    const float* second = parameter(tie.second_stage, tie.second_index).gradient;
    side.send_tied(world_rank(tie.first_stage), MessageKind::tied_gradient, i, payload(second),
                   tie.bytes / sizeof(float));
  }
  for (std::uint32_t i = 0; i < plan_.ties.size(); ++i) {
    const TiedPair& tie = plan_.ties[i];
    if (!is_first(tie)) continue;
    const float* second = reinterpret_cast<const float*>(tie_buffers_[i]);
    if (owns(tie.second_stage))
      second = parameter(tie.second_stage, tie.second_index).gradient;
    else
      co_await side.receive(tied_arrivals_[i]);
    queue_->add(parameter(tie.first_stage, tie.first_index).gradient, second, tie.bytes / sizeof(float));
  }
  for (std::uint32_t i = 0; i < plan_.ties.size(); ++i) {
    const TiedPair& tie = plan_.ties[i];
    if (!is_first(tie)) continue;
    const float* sum = parameter(tie.first_stage, tie.first_index).gradient;
    if (owns(tie.second_stage))
      queue_->copy(reinterpret_cast<std::byte*>(parameter(tie.second_stage, tie.second_index).gradient),
                   reinterpret_cast<const std::byte*>(sum), tie.bytes);
    else
      side.send_tied(world_rank(tie.second_stage), MessageKind::tied_sum, i, payload(sum),
                     tie.bytes / sizeof(float));
  }
  for (std::uint32_t i = 0; i < plan_.ties.size(); ++i)
    if (is_second(plan_.ties[i])) co_await side.receive(tied_arrivals_[i]);
  co_await side.sent_all();
}

// One gather and one broadcast a step: gradient squares, losses and measurements to rank 0; the norm and all
// the rest back to everyone.
Task<void> Rank::agree() {
  write_part();
  co_await pipeline_->gather(0, part_, parts_);
  if (pipeline_rank() == 0) {
    agreement_.clear();
    append<std::uint8_t>(agreement_, options_.stop_requested && options_.stop_requested());
    append<std::uint8_t>(agreement_, options_.save_requested && options_.save_requested());
    squares_.resize(plan_.schedule.stage_count);
    for (const auto& part : parts_) {
      Reader reader(part);
      const auto share = reader.next<Share>();
      append(agreement_, share);
      for (std::uint32_t i = 0; i < share.losses; ++i) append(agreement_, reader.next<double>());
      const auto stages = reader.next<std::uint32_t>();
      for (std::uint32_t i = 0; i < stages; ++i) {
        auto& squares = squares_.at(reader.next<std::uint16_t>());
        squares.resize(reader.next<std::uint32_t>());
        for (double& square : squares) square = reader.next<double>();
      }
    }
    for (const TiedPair& tie : plan_.ties) squares_[tie.second_stage][tie.second_index] = 0.0;
    double sum = 0;
    std::uint16_t bad_stage = 0;
    std::uint32_t bad_index = UINT32_MAX;
    for (std::uint16_t s = 0; s < squares_.size(); ++s)
      for (std::uint32_t i = 0; i < squares_[s].size(); ++i) {
        sum += squares_[s][i];
        if (bad_index == UINT32_MAX && !std::isfinite(squares_[s][i])) {
          bad_stage = s;
          bad_index = i;
        }
      }
    append(agreement_, std::sqrt(sum));
    append(agreement_, bad_stage);
    append(agreement_, bad_index);
  }
  co_await pipeline_->broadcast(0, agreement_);
  read_agreement();
}

void Rank::write_part() {
  const StepRecord& record = actor_->record();
  const bool last = view_.stages().back() + 1u == plan_.schedule.stage_count;
  part_.clear();
  Share share;
  share.background_done = !options_.background_done || options_.background_done();
  share.statistics.bubble = record.bubble();
  share.statistics.peak_in_flight = record.peak_in_flight;
  share.statistics.peak_activation_bytes = record.peak_activation_bytes;
  share.statistics.message_bytes = mailbox_->sent_bytes();
  share.statistics.busy_ms = static_cast<double>(record.busy) * 1e-6;
  share.losses = last ? plan_.schedule.microbatches : 0;
  append(part_, share);
  if (last)
    for (const double loss : record.losses) append(part_, loss);
  append(part_, static_cast<std::uint32_t>(stages_.size()));
  for (std::size_t i = 0; i < stages_.size(); ++i) {
    const auto& gradients = gradients_[i];
    queue_->squares(gradients, own_squares_.data());
    append(part_, view_.stages()[i]);
    append(part_, static_cast<std::uint32_t>(gradients.size()));
    for (std::size_t k = 0; k < gradients.size(); ++k) append(part_, own_squares_[k]);
  }
}

void Rank::read_agreement() {
  StepReport& report = report_;
  report.losses.clear();
  report.loss = 0;
  Reader reader(agreement_);
  report.stop_requested = reader.next<std::uint8_t>() != 0;
  report.save_requested = reader.next<std::uint8_t>() != 0;
  report.background_done = true;
  report.ranks.resize(plan_.schedule.ranks);
  for (RankStatistics& statistics : report.ranks) {
    const auto share = reader.next<Share>();
    report.background_done &= share.background_done != 0;
    statistics = share.statistics;
    for (std::uint32_t i = 0; i < share.losses; ++i) report.losses.push_back(reader.next<double>());
  }
  for (const double loss : report.losses) report.loss += loss;
  report.loss /= static_cast<double>(plan_.schedule.microbatches);
  report.gradient_norm = reader.next<double>();
  const auto stage = reader.next<std::uint16_t>();
  const auto index = reader.next<std::uint32_t>();
  if (index != UINT32_MAX)
    throw NonFiniteError(fmt::format(
        "step {}: the gradient norm is not finite; first tensor that is not finite: the gradient of {}",
        step_, plan_.parameters.at(stage).at(index)));
}

std::vector<std::string> Rank::gather_text(const std::string& mine) {
  std::vector<std::vector<std::byte>> parts;
  const auto* data = reinterpret_cast<const std::byte*>(mine.data());
  loop_.run(pipeline_->gather(0, {data, mine.size()}, parts));
  std::vector<std::string> texts;
  for (const auto& part : parts) texts.emplace_back(reinterpret_cast<const char*>(part.data()), part.size());
  return texts;
}

std::string Rank::broadcast_text(const std::string& text) {
  const auto* data = reinterpret_cast<const std::byte*>(text.data());
  std::vector<std::byte> bytes(data, data + text.size());
  loop_.run(pipeline_->broadcast(0, bytes));
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace weft
