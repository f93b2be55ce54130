#include "weft/actors/mailbox.h"

#include <fmt/core.h>

#include <cstring>

#include "weft/base/error.h"

namespace weft {

std::size_t Mailbox::arena_bytes(std::uint32_t rank, std::span<const EdgePlan> edges) {
  return Inbox::arena_bytes(rank, edges) + Outbox::arena_bytes(rank, edges);
}

Mailbox::Mailbox(std::uint32_t rank, std::span<const EdgePlan> edges, std::uint32_t microbatches,
                 Arena& arena, EventLoop& loop, Transport& transport, RankState& state)
    : rank_(rank),
      loop_(loop),
      inbox_(rank, edges, microbatches, arena, state),
      outbox_(rank, edges, arena, transport),
      side_(loop, transport) {
  for (const EdgePlan& edge : edges)
    if (edge.source_rank == rank) from_here_.push_back(edge);
  for (const EdgePlan& edge : from_here_) leaving_.set(edge.kind, edge.source_stage, &edge);
  inbox_.tell(this, &Mailbox::freed, &Mailbox::arrived);
  attachment_ = transport.attach(*this);
}

Mailbox::~Mailbox() { leave(); }

void Mailbox::leave() noexcept {
  attachment_.end();
  inbox_.stop_credits();
}

void Mailbox::begin_step(std::uint64_t step, Phase phase) {
  step_ = step;
  phase_ = phase;
  outbox_.begin_step(step, phase);
  inbox_.begin_step(step, phase);
}

bool Mailbox::has_room(MessageKind kind, std::uint16_t stage) const noexcept {
  const EdgePlan* edge = leaving_.find(kind, stage);
  return edge == nullptr || edge->local() || outbox_.has_room(kind, stage);
}

void Mailbox::reserve(MessageKind kind, std::uint16_t stage, std::vector<Buffer>& buffers) {
  const EdgePlan* edge = leaving_.find(kind, stage);
  if (edge == nullptr) return;
  if (edge->local())
    inbox_.reserve(kind, edge->target_stage, buffers);
  else
    outbox_.reserve(kind, stage, buffers);
}

void Mailbox::post(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch, TensorList tensors,
                   std::span<Buffer> reserved) {
  const EdgePlan* edge = leaving_.find(kind, stage);
  const std::size_t expected = edge == nullptr ? 0 : edge->tensors.size();
  if (tensors.size() != expected)
    throw Error(fmt::format("stage {}, micro-batch {}: {} tensors as its {}, its plan says {}", stage,
                            microbatch, tensors.size(), edge_name(kind), expected));
  // All are looked at before the first leaves.
  for (std::size_t t = 0; t < expected; ++t)
    tensors[t] = checked(*edge, microbatch, t, std::move(tensors[t]), reserved);
  for (std::size_t t = 0; t < expected; ++t)
    if (edge->local())
      inbox_.hand_over(kind, edge->target_stage, microbatch, t, std::move(tensors[t]));
    else
      outbox_.send(kind, stage, microbatch, t, std::move(tensors[t]));
}

const BlockPool& Mailbox::pool(const EdgePlan& edge, std::size_t tensor) const {
  return edge.local() ? inbox_.pool(edge.kind, edge.target_stage, tensor)
                      : outbox_.pool(edge.kind, edge.source_stage, tensor);
}

// What comes from a stage comes from outside.
Tensor Mailbox::checked(const EdgePlan& edge, std::uint32_t microbatch, std::size_t number, Tensor tensor,
                        std::span<Buffer> reserved) {
  const auto refuse = [&](const std::string& what) {
    return Error(fmt::format("stage {}, micro-batch {}: tensor {} of its {} {}", edge.source_stage,
                             microbatch, number, edge_name(edge.kind), what));
  };
  const TensorSpec& spec = edge.tensors[number];
  if (tensor.dtype() != spec.dtype)
    throw refuse(fmt::format("is {}, its plan says {}", dtype_name(tensor.dtype()), dtype_name(spec.dtype)));
  if (!edge.fits(number, tensor.shape()))
    throw refuse(fmt::format("is {}, its plan says at most {}", tensor.shape().str(), spec.shape.str()));
  if (!tensor && tensor.shape().elements() > 0) throw refuse("has no memory");
  if (tensor.belongs_to(pool(edge, number))) return tensor;
  if (number >= reserved.size() || !reserved[number])
    throw refuse("is not the memory that MicrobatchContext::allocate gave for it");
  Buffer& buffer = reserved[number];
  if (tensor.bytes() > 0) {
    if (tensor.device() != buffer.device()) throw refuse("lies on another device");
    if (buffer.device().kind != DeviceKind::cpu)
      throw refuse("lies in memory of the stage's own, which is copied on the CPU only");
    std::memcpy(buffer.data(), tensor.data(), tensor.bytes());
  }
  return Tensor(std::move(buffer), tensor.dtype(), tensor.shape());
}

void Mailbox::freed(void* mailbox, const EdgePlan& edge, std::uint8_t tensor) {
  auto& self = *static_cast<Mailbox*>(mailbox);
  try {
    self.outbox_.send_credit(edge, tensor);
  } catch (const PeerFailure&) {
    // The next progress() says so, and a credit for that rank is of no use.
  } catch (...) {
    self.loop_.fail(std::current_exception());  // buffers are released where nothing may be thrown
  }
}

void Mailbox::arrived(void* mailbox, const EdgePlan& edge, std::uint32_t microbatch) {
  auto& self = *static_cast<Mailbox*>(mailbox);
  if (self.events_ == nullptr) return;
  const Nanoseconds now = self.loop_.now();
  const OpKind needed = edge.kind == MessageKind::activation ? OpKind::forward : OpKind::backward_input;
  self.events_->push_back({now, now, Op{microbatch, edge.target_stage, needed, false}, self.rank_,
                           static_cast<std::uint32_t>(self.step_), TraceKind::arrived, self.phase_});
}

Payload Mailbox::accept(std::uint32_t from, const MessageHeader& header) {
  switch (header.kind) {
    case MessageKind::credit:
      if (header.payload_bytes != 0) throw TransportError("a credit with a payload");
      return {};
    case MessageKind::collective:
    case MessageKind::tied_gradient:
    case MessageKind::tied_sum:
      return side_.accept(from, header);
    case MessageKind::activation:
    case MessageKind::gradient:
      break;
  }
  return inbox_.accept(from, header);
}

void Mailbox::delivered(std::uint32_t from, const MessageHeader& header, Payload payload) {
  loop_.wake();
  switch (header.kind) {
    case MessageKind::credit:
      return outbox_.take_credit(from, header);
    case MessageKind::collective:
    case MessageKind::tied_gradient:
    case MessageKind::tied_sum:
      return side_.delivered(from, header, payload);
    case MessageKind::activation:
    case MessageKind::gradient:
      break;
  }
  inbox_.delivered(header, payload);
}

void Mailbox::sent(SendToken token) {
  if (token == Outbox::credit_token) return;
  loop_.wake();
  if (token >= SideChannel::first_token)
    side_.sent(token);
  else
    outbox_.sent(token);
}

void Mailbox::peer_failed(std::uint32_t peer, const std::string& reason) {
  throw PeerFailure(peer, fmt::format("rank {} is gone: {}", peer, reason));
}

}  // namespace weft
