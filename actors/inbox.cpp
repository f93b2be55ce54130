#include "weft/actors/inbox.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

#include "weft/base/error.h"

namespace weft {

std::size_t Inbox::arena_bytes(std::uint32_t rank, std::span<const EdgePlan> edges) {
  std::size_t bytes = 0;
  for (const EdgePlan& edge : edges)
    for (std::size_t t = 0; t < edge.tensors.size() && edge.target_rank == rank; ++t)
      bytes += BlockPool::arena_bytes(edge.block_bytes(t), edge.credits);
  return bytes;
}

Inbox::Inbox(std::uint32_t rank, std::span<const EdgePlan> edges, std::uint32_t microbatches, Arena& arena,
             RankState& state)
    : microbatches_(microbatches), state_(state) {
  std::size_t blocks = 0;
  for (const EdgePlan& plan : edges) {
    if (plan.target_rank != rank) continue;
    auto& border = borders_.emplace_back(std::make_unique<Border>());
    border->inbox = this;
    border->plan = plan;
    border->messages.resize(microbatches);
    by_target_.set(plan.kind, plan.target_stage, border.get());
    for (std::uint32_t t = 0; t < plan.tensors.size(); ++t) {
      auto& pool =
          border->pools.emplace_back(std::make_unique<BlockPool>(arena, plan.block_bytes(t), plan.credits));
      if (!plan.local()) pool->on_release(&Inbox::released, border.get(), t);
      blocks += plan.credits;
    }
  }
  landing_.reserve(blocks);
  early_.reserve(blocks);
}

Inbox::~Inbox() { stop_credits(); }

void Inbox::tell(void* owner, Freed freed, Arrived arrived) noexcept {
  owner_ = owner;
  freed_ = freed;
  arrived_ = arrived;
}

void Inbox::stop_credits() noexcept { freed_ = nullptr; }

void Inbox::released(void* border, std::uint32_t tensor) {
  const Border& of = *static_cast<const Border*>(border);
  if (of.inbox->freed_ != nullptr)
    of.inbox->freed_(of.inbox->owner_, of.plan, static_cast<std::uint8_t>(tensor));
}

void Inbox::begin_step(std::uint64_t step, Phase phase) {
  step_ = step;
  phase_ = phase;
  for (std::size_t i = 0; i < early_.size();) {
    const MessageHeader& header = early_[i].header;
    if (header.step != static_cast<std::uint32_t>(step) || header.phase != phase) {
      ++i;
      continue;
    }
    file(header, std::move(early_[i].buffer));
    early_[i] = std::move(early_.back());
    early_.pop_back();
  }
}

TensorList Inbox::take(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch) {
  Incoming& message = by_target_.find(kind, stage)->messages[microbatch];
  TensorList list;
  for (std::uint8_t i = 0; i < message.count; ++i) list.push_back(std::move(message.tensors[i]));
  message.count = 0;
  return list;
}

Payload Inbox::accept(std::uint32_t from, const MessageHeader& header) {
  Border* border = by_target_.find(header.kind, header.target_stage);
  const auto refuse = [&](const std::string& what) {
    return TransportError(fmt::format("{} from rank {} for stage {}, micro-batch {}: {}",
                                      edge_name(header.kind), from, header.target_stage, header.microbatch,
                                      what));
  };
  if (border == nullptr || border->plan.local() || border->plan.source_rank != from ||
      border->plan.source_stage != header.source_stage)
    throw refuse("there is no such border");
  const EdgePlan& plan = border->plan;
  if (header.microbatch >= microbatches_) throw refuse("no such micro-batch");
  if (header.tensor >= plan.tensors.size()) throw refuse("no such tensor");
  const TensorSpec& spec = plan.tensors[header.tensor];
  if (header.dtype != spec.dtype) throw refuse("wrong type " + std::string(dtype_name(header.dtype)));
  if (!plan.fits(header.tensor, header.shape))
    throw refuse("shape " + header.shape.str() + " exceeds the largest planned, " + spec.shape.str());
  Buffer buffer = border->pools[header.tensor]->acquire();
  if (!buffer) throw refuse("sent without a credit");
  const Payload place{buffer.data(), buffer.device()};
  landing_.push_back({header, std::move(buffer)});
  return place;
}

void Inbox::delivered(const MessageHeader& header, Payload payload) {
  const auto landing = std::find_if(landing_.begin(), landing_.end(),
                                    [&](const Landing& l) { return l.buffer.data() == payload.data; });
  if (landing == landing_.end()) throw TransportError("a tensor is delivered where none was accepted");
  Landing landed = std::move(*landing);
  *landing = std::move(landing_.back());
  landing_.pop_back();
  if (header.step == static_cast<std::uint32_t>(step_) && header.phase == phase_)
    file(header, std::move(landed.buffer));
  else
    early_.push_back(std::move(landed));
}

void Inbox::file(const MessageHeader& header, Buffer buffer) {
  Border& border = *by_target_.find(header.kind, header.target_stage);
  Incoming& message = border.messages[header.microbatch];
  if (message.tensors[header.tensor])
    throw TransportError(fmt::format("{} of micro-batch {} for stage {} came twice in step {}",
                                     edge_name(header.kind), header.microbatch, header.target_stage,
                                     header.step));
  message.tensors[header.tensor] = Tensor(std::move(buffer), header.dtype, header.shape);
  if (++message.count < border.plan.tensors.size()) return;
  mark_arrived(border.plan, header.microbatch);
  if (arrived_ != nullptr) arrived_(owner_, border.plan, header.microbatch);
}

void Inbox::mark_arrived(const EdgePlan& edge, std::uint32_t microbatch) noexcept {
  state_.mark_arrived(edge.kind == MessageKind::activation ? OpKind::forward : OpKind::backward_input,
                      edge.target_stage, microbatch);
}

void Inbox::reserve(MessageKind kind, std::uint16_t stage, std::vector<Buffer>& buffers) {
  const Border& border = *by_target_.find(kind, stage);
  for (const auto& pool : border.pools) {
    Buffer buffer = pool->acquire();
    if (!buffer)
      throw ScheduleError(
          fmt::format("stage {}: no free buffer for its {}; more micro-batches in flight than planned",
                      border.plan.source_stage, edge_name(kind)));
    buffers.push_back(std::move(buffer));
  }
}

const BlockPool& Inbox::pool(MessageKind kind, std::uint16_t stage, std::size_t tensor) const {
  return *by_target_.find(kind, stage)->pools[tensor];
}

void Inbox::hand_over(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch, std::size_t number,
                      Tensor tensor) {
  Border& border = *by_target_.find(kind, stage);
  Incoming& message = border.messages[microbatch];
  message.tensors[number] = std::move(tensor);
  if (++message.count == border.plan.tensors.size()) mark_arrived(border.plan, microbatch);
}

}  // namespace weft
