#include "weft/transport/ucx/transport_impl.h"

#include <poll.h>

#include <algorithm>

#include "weft/base/error.h"

namespace weft::ucx {
namespace {

constexpr int most_turns = 8;                     // of UCX in one progress(): about 4 MB
constexpr Nanoseconds cut_limit = 1'000'000'000;  // for UCX to let go of connections

std::string name(const Peer& peer) { return "rank " + std::to_string(peer.rank); }

}  // namespace

UcxTransport::UcxTransport(std::uint32_t rank, std::uint32_t world_size, const Settings& settings)
    : rank_(rank), world_size_(world_size), context_(settings), peers_(world_size), worker_(context_) {
  for (std::uint32_t other = 0; other < world_size_; ++other) {
    if (other == rank_) continue;
    peers_[other] = std::make_unique<Peer>(*this, other, static_cast<std::uint16_t>(rank_),
                                           context_.request_bytes(), sent_);
    worker_.on_message(static_cast<std::uint16_t>(other), &UcxTransport::on_message, peers_[other].get());
  }
}

UcxTransport::~UcxTransport() {
  cut_all(now_ns() + cut_limit);
  for (auto& peer : peers_)
    if (peer) peer->endpoint.reset();
  if (flush_ != nullptr) ucp_request_free(flush_);
}

Capabilities UcxTransport::capabilities() const {
  std::string lanes;
  for (const std::string& lane : lanes_) lanes += " " + lane;
  return {"ucx" + lanes, context_.moves_cuda_memory()};
}

void UcxTransport::send(std::uint32_t to, const MessageHeader& header, ConstPayload payload,
                        SendToken token) {
  if (to >= world_size_ || to == rank_)
    throw TransportError("rank " + std::to_string(rank_) + " cannot send to rank " + std::to_string(to));
  if (closing_) throw TransportError("a message after close()");
  context_.require_movable(payload.device);
  Peer& peer = *peers_[to];
  if (peer.gone || peer.failure) throw TransportError(name(peer) + " is gone");
  peer.outgoing.post(header, payload, token);
}

bool UcxTransport::progress() {
  if (sink_ == nullptr) throw TransportError("progress() before attach()");
  bool busy = turn();
  busy |= tell();
  return busy;
}

bool UcxTransport::turn() {
  bool busy = false;
  for (int i = 0; i < most_turns && worker_.progress(); ++i) busy = true;
  busy |= continue_rendezvous();
  for (const auto& peer : peers_) {
    if (!peer || peer->gone) continue;
    if (!peer->failure) peer->failure = peer->outgoing.failure();
    if (peer->failure) {
      part_from(*peer);
      busy = true;
      continue;
    }
    if (peer->finished() && !peer->goodbye_answered) {
      peer->goodbye_answered = true;
      peer->outgoing.post(Control{Control::What::goodbye_heard, 0});
    }
    busy |= peer->outgoing.pump();
  }
  return busy;
}

bool UcxTransport::tell() {
  bool busy = false;
  while (!delivered_.empty()) {
    const Arrival arrival = delivered_.pop();
    sink_->delivered(arrival.from, arrival.header, arrival.payload);
    busy = true;
  }
  while (!sent_.empty()) {
    sink_->sent(sent_.pop());
    busy = true;
  }
  while (!failed_.empty()) {
    const Peer& peer = *failed_.pop();
    sink_->peer_failed(
        peer.rank, "the connection to " + name(peer) + " is lost (" + ucs_status_string(*peer.failure) + ")");
    busy = true;
  }
  rethrow();
  return busy;
}

void UcxTransport::rethrow() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void UcxTransport::part_from(Peer& peer) {
  // A peer may leave once it has said goodbye and we owe it nothing.
  const bool expected = peer.finished() && peer.outgoing.idle();
  peer.gone = true;
  peer.outgoing.abandon();
  peer.endpoint->cut();
  if (!expected) failed_.push(&peer);
}

bool UcxTransport::arm() {
  if (!sent_.empty() || !delivered_.empty() || !failed_.empty() || !rendezvous_.empty() || error_)
    return false;
  return worker_.arm();
}

void UcxTransport::on_error(void* peer, ucp_ep_h /*endpoint*/, ucs_status_t status) noexcept {
  static_cast<Peer*>(peer)->failure = status;
}

ucs_status_t UcxTransport::on_message(void* argument, const void* header, std::size_t header_bytes,
                                      void* data, std::size_t bytes,
                                      const ucp_am_recv_param_t* param) noexcept {
  Peer& peer = *static_cast<Peer*>(argument);
  UcxTransport& transport = peer.transport;
  const bool rendezvous = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  try {
    return transport.receive(peer, {static_cast<const std::byte*>(header), header_bytes},
                             {static_cast<const std::byte*>(data), bytes}, rendezvous);
  } catch (...) {
    if (!transport.error_) transport.error_ = std::current_exception();
    return rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  }
}

ucs_status_t UcxTransport::receive(Peer& peer, std::span<const std::byte> header,
                                   std::span<const std::byte> data, bool rendezvous) {
  if (header.size() != MessageHeader::wire_bytes) {
    receive_control(peer, decode_control(header));
    return rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  }
  if (sink_ == nullptr) throw TransportError("a message from " + name(peer) + " before all were connected");
  if (rendezvous) {
    begin_rendezvous(peer, header, const_cast<std::byte*>(data.data()), data.size());
    return UCS_INPROGRESS;
  }
  Arrival arrival;
  if (peer.incoming.add(*sink_, header, data, arrival)) delivered_.push(arrival);
  return UCS_OK;
}

void UcxTransport::receive_control(Peer& peer, const Control& control) {
  switch (control.what) {
    case Control::What::hello:
      peer.incoming.set_chunk_bytes(control.value);
      peer.hello = true;
      break;
    case Control::What::hello_heard:
      peer.hello_heard = true;
      break;
    case Control::What::goodbye:
      peer.goodbye = control.value;
      break;
    case Control::What::goodbye_heard:
      peer.goodbye_heard = true;
      break;
  }
}

void UcxTransport::begin_rendezvous(Peer& peer, std::span<const std::byte> header, void* descriptor,
                                    std::size_t bytes) {
  const Arrival arrival = peer.incoming.begin_whole(*sink_, header, bytes);
  context_.require_movable(arrival.payload.device);
  if (free_rendezvous_.empty()) free_rendezvous_.push_back(&rendezvous_memory_.emplace_back());
  Rendezvous* slot = free_rendezvous_.back();
  free_rendezvous_.pop_back();
  *slot = Rendezvous{this, &peer, arrival, descriptor};
  ++peer.receiving;
  rendezvous_.push(slot);
}

bool UcxTransport::continue_rendezvous() {
  bool busy = false;
  while (!rendezvous_.empty()) {
    Rendezvous& slot = *rendezvous_.pop();
    ucp_request_param_t params{};
    params.op_attr_mask =
        UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
    params.cb.recv_am = &UcxTransport::on_received;
    params.user_data = &slot;
    params.memory_type = memory_type(slot.arrival.payload.device);
    const ucs_status_ptr_t status =
        ucp_am_recv_data_nbx(worker_.handle(), slot.descriptor, slot.arrival.payload.data,
                             slot.arrival.header.payload_bytes, &params);
    if (!UCS_PTR_IS_PTR(status)) end_rendezvous(slot, UCS_PTR_STATUS(status));
    busy = true;
  }
  return busy;
}

void UcxTransport::on_received(void* request, ucs_status_t status, std::size_t /*bytes*/,
                               void* user_data) noexcept {
  Rendezvous& slot = *static_cast<Rendezvous*>(user_data);
  slot.transport->end_rendezvous(slot, status);
  ucp_request_free(request);
}

void UcxTransport::end_rendezvous(Rendezvous& slot, ucs_status_t status) {
  --slot.peer->receiving;
  if (status == UCS_OK)
    delivered_.push(slot.arrival);
  else if (!slot.peer->failure)
    slot.peer->failure = status;
  free_rendezvous_.push_back(&slot);
}

void UcxTransport::close(Nanoseconds deadline) {
  closing_ = true;
  const auto parted = [](const std::unique_ptr<Peer>& peer) {
    return !peer || peer->gone ||
           (peer->goodbye_heard && peer->finished() && peer->goodbye_answered && peer->outgoing.idle());
  };
  while (now_ns() < deadline) {
    const bool busy = progress();
    for (const auto& peer : peers_) {
      if (!peer || peer->gone || peer->goodbye_sent || !peer->outgoing.idle()) continue;
      peer->goodbye_sent = true;
      peer->outgoing.post(Control{Control::What::goodbye, peer->outgoing.posted()});
    }
    if (std::all_of(peers_.begin(), peers_.end(), parted) && flushed()) break;
    if (!busy) sleep(deadline);
  }
  cut_all(std::min(deadline, now_ns() + cut_limit));
}

bool UcxTransport::flushed() {
  if (flush_ == nullptr) {
    const ucp_request_param_t params{};
    flush_ = ucp_worker_flush_nbx(worker_.handle(), &params);
  }
  if (UCS_PTR_IS_PTR(flush_)) {
    if (ucp_request_check_status(flush_) == UCS_INPROGRESS) return false;
    ucp_request_free(flush_);
  }
  flush_ = nullptr;
  return true;
}

void UcxTransport::sleep(Nanoseconds deadline) {
  const Nanoseconds left = deadline - now_ns();
  if (left <= 0 || !arm()) return;
  pollfd wait{worker_.descriptor(), POLLIN, 0};
  poll(&wait, 1, static_cast<int>(std::clamp<Nanoseconds>(left / 1'000'000, 1, 10)));
}

void UcxTransport::cut_all(Nanoseconds deadline) noexcept {
  closing_ = true;
  for (const auto& peer : peers_) {
    if (!peer || !peer->endpoint) continue;
    peer->gone = true;
    peer->endpoint->cut();
  }
  const auto let_go = [](const std::unique_ptr<Peer>& peer) {
    return !peer || !peer->endpoint ||
           (peer->endpoint->is_cut() && !peer->outgoing.under_way() && peer->receiving == 0);
  };
  while (!std::all_of(peers_.begin(), peers_.end(), let_go) && now_ns() < deadline) worker_.progress();
}

}  // namespace weft::ucx
