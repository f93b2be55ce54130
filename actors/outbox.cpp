#include "weft/actors/outbox.h"

#include <fmt/core.h>

#include "weft/base/error.h"

namespace weft {

std::size_t Outbox::arena_bytes(std::uint32_t rank, std::span<const EdgePlan> edges) {
  std::size_t bytes = 0;
  for (const EdgePlan& edge : edges)
    for (std::size_t t = 0; t < edge.tensors.size() && edge.source_rank == rank && !edge.local(); ++t)
      bytes += BlockPool::arena_bytes(edge.block_bytes(t), send_buffers);
  return bytes;
}

Outbox::Outbox(std::uint32_t rank, std::span<const EdgePlan> edges, Arena& arena, Transport& transport)
    : transport_(transport) {
  std::uint32_t blocks = 0;
  for (const EdgePlan& plan : edges) {
    if (plan.source_rank != rank || plan.local()) continue;
    auto& border = borders_.emplace_back(std::make_unique<Border>());
    border->plan = plan;
    by_source_.set(plan.kind, plan.source_stage, border.get());
    for (std::size_t t = 0; t < plan.tensors.size(); ++t) {
      border->pools.push_back(std::make_unique<BlockPool>(arena, plan.block_bytes(t), send_buffers));
      border->credits.push_back(plan.credits);
      blocks += send_buffers;
    }
  }
  leaving_.resize(blocks);
  for (std::uint32_t token = blocks; token > 0; --token) free_tokens_.push_back(token);
}

void Outbox::begin_step(std::uint64_t step, Phase phase) noexcept {
  step_ = step;
  phase_ = phase;
  sent_bytes_ = 0;
}

bool Outbox::has_room(MessageKind kind, std::uint16_t stage) const noexcept {
  const Border& border = *by_source_.find(kind, stage);
  for (std::size_t t = 0; t < border.pools.size(); ++t)
    if (border.credits[t] == 0 || border.pools[t]->available() == 0) return false;
  return true;
}

void Outbox::reserve(MessageKind kind, std::uint16_t stage, std::vector<Buffer>& buffers) {
  Border& border = *by_source_.find(kind, stage);
  for (std::size_t t = 0; t < border.pools.size(); ++t) {
    --border.credits[t];
    buffers.push_back(border.pools[t]->acquire());
  }
}

const BlockPool& Outbox::pool(MessageKind kind, std::uint16_t stage, std::size_t tensor) const {
  return *by_source_.find(kind, stage)->pools[tensor];
}

void Outbox::send(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch, std::size_t number,
                  Tensor tensor) {
  const EdgePlan& plan = by_source_.find(kind, stage)->plan;
  MessageHeader header;
  header.kind = kind;
  header.phase = phase_;
  header.dtype = tensor.dtype();
  header.step = static_cast<std::uint32_t>(step_);
  header.source_stage = stage;
  header.target_stage = plan.target_stage;
  header.microbatch = microbatch;
  header.tensor = static_cast<std::uint8_t>(number);
  header.shape = tensor.shape();
  header.payload_bytes = tensor.bytes();
  const std::uint32_t token = free_tokens_.back();
  free_tokens_.pop_back();
  Tensor& kept = leaving_[token - 1];
  kept = std::move(tensor);
  sent_bytes_ += header.payload_bytes;
  transport_.send(plan.target_rank, header, {kept.data(), kept.device()}, token);
}

void Outbox::sent(SendToken token) noexcept {
  if (token == credit_token) return;
  leaving_[token - 1].release();
  free_tokens_.push_back(static_cast<std::uint32_t>(token));  // where it was before: there is room
}

void Outbox::send_credit(const EdgePlan& edge, std::uint8_t tensor) {
  MessageHeader header;
  header.kind = MessageKind::credit;
  header.phase = phase_;
  header.step = static_cast<std::uint32_t>(step_);
  header.source_stage = edge.source_stage;
  header.target_stage = edge.target_stage;
  header.tensor = tensor;
  transport_.send(edge.source_rank, header, {}, credit_token);
}

void Outbox::take_credit(std::uint32_t from, const MessageHeader& header) {
  const MessageKind kind =
      header.source_stage < header.target_stage ? MessageKind::activation : MessageKind::gradient;
  Border* border = by_source_.find(kind, header.source_stage);
  if (border == nullptr || border->plan.target_rank != from ||
      border->plan.target_stage != header.target_stage || header.tensor >= border->credits.size() ||
      border->credits[header.tensor] >= border->plan.credits)
    throw TransportError(fmt::format("rank {} returns a credit that it does not have", from));
  ++border->credits[header.tensor];
}

}  // namespace weft
