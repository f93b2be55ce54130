#include "weft/actors/mailbox.h"

#include <fmt/core.h>

#include <algorithm>
#include <cassert>
#include <string>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr SendToken forgotten = 0;               // credits: nobody waits for them
constexpr SendToken direct = UINT64_MAX;         // side traffic: only counted
constexpr std::size_t largest_part = 64u << 20;  // of a collective

// Blocks are never empty, so that their addresses tell them apart.
std::size_t block_bytes(const TensorSpec& spec) { return std::max<std::size_t>(spec.bytes(), 1); }

const char* name(MessageKind kind) { return kind == MessageKind::activation ? "activation" : "gradient"; }

}  // namespace

struct Mailbox::Edge {
  explicit Edge(EdgePlan edge_plan) : plan(std::move(edge_plan)) {}
  EdgePlan plan;
  std::vector<std::unique_ptr<BlockPool>> receive;  // one pool a tensor, where the target is this rank
  std::vector<std::unique_ptr<BlockPool>> send;     // one pool a tensor, where only the source is
  std::vector<std::uint32_t> credits;
  [[nodiscard]] bool local() const noexcept { return plan.source_rank == plan.target_rank; }
};

std::size_t Mailbox::arena_bytes(std::uint32_t rank, std::span<const EdgePlan> edges) {
  std::size_t bytes = 0;
  for (const EdgePlan& edge : edges)
    for (const TensorSpec& spec : edge.tensors) {
      if (edge.target_rank == rank) bytes += BlockPool::arena_bytes(block_bytes(spec), edge.credits);
      if (edge.source_rank == rank && edge.target_rank != rank)
        bytes += BlockPool::arena_bytes(block_bytes(spec), send_buffers);
    }
  return bytes;
}

Mailbox::Mailbox(std::uint32_t rank, std::span<const EdgePlan> edges, std::uint32_t microbatches,
                 Arena& arena, EventLoop& loop, Transport& transport, RankState& state)
    : rank_(rank), microbatches_(microbatches), loop_(loop), transport_(transport), state_(state) {
  std::size_t receive_blocks = 0;
  std::size_t send_blocks = 0;
  for (const EdgePlan& plan : edges) {
    if (plan.source_rank != rank && plan.target_rank != rank) continue;
    auto edge = std::make_unique<Edge>(plan);
    const auto number = static_cast<std::uint32_t>(edges_.size());
    for (std::uint32_t t = 0; t < plan.tensors.size(); ++t) {
      const std::size_t bytes = block_bytes(plan.tensors[t]);
      if (plan.target_rank == rank) {
        auto& pool = edge->receive.emplace_back(std::make_unique<BlockPool>(arena, bytes, plan.credits));
        if (!edge->local())
          pool->on_release(&Mailbox::return_credit, this,
                           number * static_cast<std::uint32_t>(TensorList::capacity) + t);
        receive_blocks += plan.credits;
      } else {
        edge->send.push_back(std::make_unique<BlockPool>(arena, bytes, send_buffers));
        edge->credits.push_back(plan.credits);
        send_blocks += send_buffers;
      }
    }
    edges_.push_back(std::move(edge));
  }
  std::uint16_t highest = 0;
  for (const std::uint16_t stage : state.stages()) highest = std::max(highest, stage);
  local_stage_.assign(highest + 1u, 0);
  for (std::size_t i = 0; i < state.stages().size(); ++i)
    local_stage_[state.stages()[i]] = static_cast<std::uint16_t>(i);
  activations_.resize(state.stages().size() * microbatches);
  gradients_.resize(state.stages().size() * microbatches);
  landings_.reserve(receive_blocks);
  outgoing_.resize(send_blocks);
  for (std::size_t i = send_blocks; i > 0; --i) free_tokens_.push_back(static_cast<std::uint32_t>(i));
  parts_.reserve(64);
  attachment_ = transport.attach(*this);
}

void Mailbox::leave() noexcept {
  attachment_.end();
  for (auto& edge : edges_)
    for (auto& pool : edge->receive) pool->on_release(nullptr, nullptr, 0);
}

Mailbox::~Mailbox() {
  leave();
  for (auto* list : {&activations_, &gradients_})
    for (Incoming& message : *list)
      for (Tensor& tensor : message.tensors) tensor.release();
  landings_.clear();
  outgoing_.clear();
}

Mailbox::Edge* Mailbox::incoming_edge(MessageKind kind, std::uint16_t target_stage) noexcept {
  for (auto& edge : edges_)
    if (edge->plan.kind == kind && edge->plan.target_stage == target_stage && edge->plan.target_rank == rank_)
      return edge.get();
  return nullptr;
}

Mailbox::Edge* Mailbox::outgoing_edge(MessageKind kind, std::uint16_t source_stage) noexcept {
  for (auto& edge : edges_)
    if (edge->plan.kind == kind && edge->plan.source_stage == source_stage && edge->plan.source_rank == rank_)
      return edge.get();
  return nullptr;
}

Mailbox::Incoming& Mailbox::incoming(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch) {
  auto& list = kind == MessageKind::activation ? activations_ : gradients_;
  return list[static_cast<std::size_t>(local_stage_[stage]) * microbatches_ + microbatch];
}

void Mailbox::begin_step(std::uint64_t step, Phase phase) {
  sent_bytes_ = 0;
  step_ = step;
  phase_ = phase;
  for (std::size_t i = 0; i < landings_.size();) {
    Landing& landing = landings_[i];
    if (!landing.complete || landing.header.step != static_cast<std::uint32_t>(step) ||
        landing.header.phase != phase) {
      ++i;
      continue;
    }
    file(landing.header, std::move(landing.buffer));
    landings_[i] = std::move(landings_.back());
    landings_.pop_back();
  }
}

bool Mailbox::arrived(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch) const {
  const auto& list = kind == MessageKind::activation ? activations_ : gradients_;
  return list[static_cast<std::size_t>(local_stage_[stage]) * microbatches_ + microbatch].count > 0;
}

TensorList Mailbox::take(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch) {
  Incoming& message = incoming(kind, stage, microbatch);
  TensorList list;
  for (std::uint8_t i = 0; i < message.count; ++i) list.push_back(std::move(message.tensors[i]));
  message.count = 0;
  return list;
}

void Mailbox::file(const MessageHeader& header, Buffer buffer) {
  const Edge* edge = incoming_edge(header.kind, header.target_stage);
  Incoming& message = incoming(header.kind, header.target_stage, header.microbatch);
  if (message.tensors[header.tensor])
    throw TransportError(fmt::format("{} of micro-batch {} for stage {} came twice in step {}",
                                     name(header.kind), header.microbatch, header.target_stage, header.step));
  message.tensors[header.tensor] = Tensor(std::move(buffer), header.dtype, header.shape);
  if (++message.count < edge->plan.tensors.size()) return;
  const OpKind needed = header.kind == MessageKind::activation ? OpKind::forward : OpKind::backward_input;
  state_.mark_arrived(needed, header.target_stage, header.microbatch);
  if (events_ == nullptr) return;
  const Nanoseconds now = loop_.now();
  events_->push_back({now, now, Op{header.microbatch, header.target_stage, needed, false}, rank_,
                      static_cast<std::uint32_t>(step_), TraceKind::arrived, phase_});
}

bool Mailbox::has_room(MessageKind kind, std::uint16_t stage) noexcept {
  const Edge* edge = outgoing_edge(kind, stage);
  if (edge == nullptr || edge->local()) return true;
  for (std::size_t t = 0; t < edge->plan.tensors.size(); ++t)
    if (edge->credits[t] == 0 || edge->send[t]->available() == 0) return false;
  return true;
}

Task<void> Mailbox::reserve(MessageKind kind, std::uint16_t stage, std::vector<Buffer>& buffers) {
  Edge* edge = outgoing_edge(kind, stage);
  if (edge == nullptr) co_return;
  for (std::size_t t = 0; t < edge->plan.tensors.size(); ++t) {
    if (edge->local()) {
      Buffer buffer = edge->receive[t]->acquire();
      if (!buffer)
        throw ScheduleError(
            fmt::format("stage {}: no free buffer for its {}; more micro-batches in flight than planned",
                        stage, name(kind)));
      buffers.push_back(std::move(buffer));
      continue;
    }
    while (edge->credits[t] == 0 || edge->send[t]->available() == 0) co_await next(INT64_MAX);
    --edge->credits[t];
    buffers.push_back(edge->send[t]->acquire());
  }
}

void Mailbox::post(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch, TensorList tensors) {
  Edge* edge = outgoing_edge(kind, stage);
  const std::size_t expected = edge == nullptr ? 0 : edge->plan.tensors.size();
  if (tensors.size() != expected)
    throw Error(fmt::format("stage {} returned {} tensors as its {}, its plan says {}", stage, tensors.size(),
                            name(kind), expected));
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    Tensor& tensor = tensors[t];
    if (!tensor && tensor.shape().elements() > 0)
      throw Error(fmt::format("stage {}: tensor {} of its {} has no memory", stage, t, name(kind)));
    if (tensor.dtype() != edge->plan.tensors[t].dtype)
      throw Error(fmt::format("stage {}: tensor {} of its {} is {}, its plan says {}", stage, t, name(kind),
                              dtype_name(tensor.dtype()), dtype_name(edge->plan.tensors[t].dtype)));
    MessageHeader header;
    header.kind = kind;
    header.phase = phase_;
    header.dtype = tensor.dtype();
    header.step = static_cast<std::uint32_t>(step_);
    header.source_stage = stage;
    header.target_stage = edge->plan.target_stage;
    header.microbatch = microbatch;
    header.tensor = static_cast<std::uint8_t>(t);
    header.shape = tensor.shape();
    header.payload_bytes = tensor.bytes();
    if (edge->local()) {
      Incoming& message = incoming(kind, header.target_stage, microbatch);
      message.tensors[t] = std::move(tensor);
      if (++message.count == expected)
        state_.mark_arrived(kind == MessageKind::activation ? OpKind::forward : OpKind::backward_input,
                            header.target_stage, microbatch);
      continue;
    }
    const std::uint32_t token = free_tokens_.back();
    free_tokens_.pop_back();
    outgoing_[token - 1] = std::move(tensor);
    sent_bytes_ += header.payload_bytes;
    const Tensor& kept = outgoing_[token - 1];
    transport_.send(edge->plan.target_rank, header, {kept.data(), kept.device()}, token);
  }
}

void Mailbox::return_credit(void* owner, std::uint32_t edge_and_tensor) {
  auto& self = *static_cast<Mailbox*>(owner);
  const Edge& edge = *self.edges_[edge_and_tensor / TensorList::capacity];
  MessageHeader header;
  header.kind = MessageKind::credit;
  header.phase = self.phase_;
  header.step = static_cast<std::uint32_t>(self.step_);
  header.source_stage = edge.plan.source_stage;
  header.target_stage = edge.plan.target_stage;
  header.tensor = static_cast<std::uint8_t>(edge_and_tensor % TensorList::capacity);
  try {
    self.transport_.send(edge.plan.source_rank, header, {}, forgotten);
  } catch (const PeerFailure&) {
    // The next progress() says so, and a credit for that rank is of no use.
  } catch (...) {
    self.loop_.fail(std::current_exception());
  }
}

Payload Mailbox::accept(std::uint32_t from, const MessageHeader& header) {
  switch (header.kind) {
    case MessageKind::credit:
      return {};
    case MessageKind::collective: {
      if (header.payload_bytes > largest_part)
        throw TransportError(fmt::format("rank {} sends {} bytes at once", from, header.payload_bytes));
      auto part = std::find_if(parts_.begin(), parts_.end(), [](const Part& p) { return p.tag == 0; });
      if (part == parts_.end()) part = parts_.insert(parts_.end(), Part{});
      part->group = header.group;
      part->from = from;
      part->tag = header.microbatch;
      part->complete = false;
      part->bytes.resize(header.payload_bytes);
      return {part->bytes.data(), {}};
    }
    case MessageKind::tied_gradient:
    case MessageKind::tied_sum:
      for (const Direct& d : directs_)
        if (d.kind == header.kind && d.stage == header.target_stage && d.tensor == header.tensor &&
            d.bytes == header.payload_bytes)
          return {d.into, {}};
      throw TransportError(fmt::format("rank {} sends a tied gradient that nobody expects", from));
    case MessageKind::activation:
    case MessageKind::gradient:
      break;
  }
  Edge* edge = incoming_edge(header.kind, header.target_stage);
  const auto refuse = [&](const std::string& what) {
    return TransportError(fmt::format("{} from rank {} for stage {}, micro-batch {}: {}", name(header.kind),
                                      from, header.target_stage, header.microbatch, what));
  };
  if (edge == nullptr || edge->plan.source_rank != from || edge->plan.source_stage != header.source_stage)
    throw refuse("there is no such border");
  if (header.microbatch >= microbatches_) throw refuse("no such micro-batch");
  if (header.tensor >= edge->plan.tensors.size()) throw refuse("no such tensor");
  const TensorSpec& spec = edge->plan.tensors[header.tensor];
  if (header.dtype != spec.dtype) throw refuse("wrong type " + std::string(dtype_name(header.dtype)));
  bool fits = header.shape.rank() == spec.shape.rank();
  for (std::size_t i = 0; fits && i < spec.shape.rank(); ++i) fits = header.shape[i] <= spec.shape[i];
  if (!fits)
    throw refuse("shape " + header.shape.str() + " exceeds the largest planned, " + spec.shape.str());
  Buffer buffer = edge->receive[header.tensor]->acquire();
  if (!buffer) throw refuse("sent without a credit");
  Landing landing;
  landing.header = header;
  landing.from = from;
  landing.buffer = std::move(buffer);
  landings_.push_back(std::move(landing));
  const Buffer& place = landings_.back().buffer;
  return {place.data(), place.device()};
}

void Mailbox::delivered(std::uint32_t from, const MessageHeader& header, Payload payload) {
  loop_.wake();
  switch (header.kind) {
    case MessageKind::credit: {
      const MessageKind kind =
          header.source_stage < header.target_stage ? MessageKind::activation : MessageKind::gradient;
      Edge* edge = outgoing_edge(kind, header.source_stage);
      if (edge == nullptr || edge->local() || edge->plan.target_rank != from ||
          header.tensor >= edge->credits.size() || edge->credits[header.tensor] >= edge->plan.credits)
        throw TransportError(fmt::format("rank {} returns a credit that it does not have", from));
      ++edge->credits[header.tensor];
      return;
    }
    case MessageKind::collective:
      for (Part& part : parts_)
        if (part.group == header.group && part.from == from && part.tag == header.microbatch)
          part.complete = true;
      return;
    case MessageKind::tied_gradient:
    case MessageKind::tied_sum:
      for (Direct& d : directs_)
        if (d.kind == header.kind && d.stage == header.target_stage && d.tensor == header.tensor) ++d.arrived;
      return;
    case MessageKind::activation:
    case MessageKind::gradient:
      break;
  }
  const auto landing = std::find_if(landings_.begin(), landings_.end(), [&](const Landing& l) {
    return !l.complete && l.buffer.data() == payload.data;
  });
  assert(landing != landings_.end());
  if (header.step == static_cast<std::uint32_t>(step_) && header.phase == phase_) {
    file(header, std::move(landing->buffer));
    *landing = std::move(landings_.back());
    landings_.pop_back();
  } else {
    landing->complete = true;  // of a step that this rank has not begun
  }
}

void Mailbox::sent(SendToken token) {
  if (token == forgotten) return;
  loop_.wake();
  if (token == direct) {
    --direct_sends_;
    return;
  }
  outgoing_[token - 1].release();
  free_tokens_.push_back(static_cast<std::uint32_t>(token));
}

void Mailbox::peer_failed(std::uint32_t peer, const std::string& reason) {
  throw PeerFailure(peer, fmt::format("rank {} is gone: {}", peer, reason));
}

void Mailbox::send_direct(std::uint32_t to, MessageHeader header, const std::byte* payload) {
  header.phase = phase_;
  header.step = static_cast<std::uint32_t>(step_);
  ++direct_sends_;
  transport_.send(to, header, {payload, {}}, direct);
}

void Mailbox::expect_direct(MessageKind kind, std::uint16_t stage, std::uint8_t tensor, std::byte* into,
                            std::size_t bytes) {
  directs_.push_back({kind, stage, tensor, into, bytes});
}

Task<void> Mailbox::receive_direct(MessageKind kind, std::uint16_t stage, std::uint8_t tensor) {
  for (;;) {
    for (Direct& d : directs_)
      if (d.kind == kind && d.stage == stage && d.tensor == tensor && d.arrived > 0) {
        --d.arrived;
        co_return;
      }
    co_await next(INT64_MAX);
  }
}

Task<void> Mailbox::receive_collective(std::uint16_t group, std::uint32_t from, std::uint32_t tag,
                                       std::vector<std::byte>& into) {
  for (;;) {
    for (Part& part : parts_)
      if (part.complete && part.group == group && part.from == from && part.tag == tag) {
        into.insert(into.end(), part.bytes.begin(), part.bytes.end());
        part.tag = 0;
        part.complete = false;
        co_return;
      }
    co_await next(INT64_MAX);
  }
}

Task<void> Mailbox::sent_all() {
  while (direct_sends_ > 0) co_await next(INT64_MAX);
}

std::size_t Mailbox::peak_receive_bytes() const noexcept {
  std::size_t bytes = 0;
  for (const auto& edge : edges_)
    for (const auto& pool : edge->receive) bytes += pool->peak_in_use() * pool->block_bytes();
  return bytes;
}

}  // namespace weft
