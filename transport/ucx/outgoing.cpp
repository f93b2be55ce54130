#include "weft/transport/ucx/outgoing.h"

#include <algorithm>
#include <cassert>

namespace weft::ucx {
namespace {

// UCX 1.13 asks a peer for its id before it sends the first message that is not very short, and until the
// peer answers it holds all messages back and does not notice its death. A control message carries some bytes
// for nothing, so that this happens at the greeting, while all ranks listen.
constexpr std::array<std::byte, 512> ballast{};

}  // namespace

Outgoing::Outgoing(std::uint16_t own_id, std::size_t request_bytes, Fifo<SendToken>& finished)
    : own_id_(own_id), finished_(finished) {
  const std::size_t front = (request_bytes + 63) / 64 * 64;
  const std::size_t stride = front + (sizeof(Request) + 63) / 64 * 64;
  request_memory_.reset(
      static_cast<std::byte*>(::operator new (stride* most_requests, std::align_val_t{64})));
  free_.reserve(most_requests);
  for (std::size_t i = 0; i < most_requests; ++i) {
    auto* request = new (request_memory_.get() + i * stride + front) Request;
    request->owner = this;
    free_.push_back(request);
  }
}

Outgoing::~Outgoing() { assert(!under_way() && "UCX still holds requests"); }

void Outgoing::connect(ucp_ep_h endpoint, std::size_t chunk_bytes) noexcept {
  endpoint_ = endpoint;
  chunk_bytes_ = chunk_bytes;
}

void Outgoing::post(const MessageHeader& header, ConstPayload payload, SendToken token) {
  if (free_messages_.empty()) free_messages_.push_back(&message_memory_.emplace_back());
  Message* message = free_messages_.back();
  free_messages_.pop_back();
  *message = Message{header, payload, token};
  message->header.chunk = 0;
  message->header.sequence = sequence_++;
  ++posted_;
  messages_.push(message);
  if (messages_.size() == 1) pump();
}

void Outgoing::post(const Control& control) {
  controls_.push(control);
  pump();
}

bool Outgoing::pump() {
  bool busy = false;
  while (!controls_.empty() && !free_.empty() && !failure_) {
    Request& request = *free_.back();
    free_.pop_back();
    request.message = nullptr;
    encode(controls_.pop(), std::span(request.header).first<Control::wire_bytes>());
    give(request, Control::wire_bytes, {ballast.data(), {}}, ballast.size(), UCP_AM_SEND_FLAG_EAGER);
    busy = true;
  }
  while (!messages_.empty() && !free_.empty() && !failure_) {
    Message& message = *messages_.front();
    if (give_chunk(message)) {
      messages_.pop();
      message.whole_given = true;
      finish_if_done(message);
    }
    busy = true;
  }
  return busy;
}

/// True when the last chunk of the message was given to UCX.
bool Outgoing::give_chunk(Message& message) {
  const std::uint64_t left = message.header.payload_bytes - message.offset;
  // A chunk fits one eager message, which the receiver needs no memory for; whole messages take what UCX
  // thinks best, which is its rendezvous when they are large. Into device memory the rendezvous is the only
  // way, and it must not be asked for when there is nothing to move.
  const bool on_device = message.payload.device.kind != DeviceKind::cpu;
  const bool whole = chunk_bytes_ == 0 || on_device;
  const std::uint64_t bytes = whole ? left : std::min<std::uint64_t>(left, chunk_bytes_);
  std::uint32_t flags = whole ? 0 : UCP_AM_SEND_FLAG_EAGER;
  if (on_device && bytes != 0) flags = UCP_AM_SEND_FLAG_RNDV;
  Request& request = *free_.back();
  free_.pop_back();
  request.message = &message;
  encode(message.header, request.header);
  ++message.under_way;
  const ConstPayload data{message.payload.data + message.offset, message.payload.device};
  if (!give(request, MessageHeader::wire_bytes, data, bytes, flags)) return false;
  message.offset += bytes;
  ++message.header.chunk;
  return message.offset == message.header.payload_bytes;
}

bool Outgoing::give(Request& request, std::size_t header_bytes, ConstPayload data, std::size_t bytes,
                    std::uint32_t flags) {
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_REQUEST | UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_FLAGS |
                        UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  params.request = &request;
  params.cb.send = &Outgoing::on_sent;
  params.flags = flags;
  params.memory_type = memory_type(data.device);
  const ucs_status_ptr_t status =
      ucp_am_send_nbx(endpoint_, own_id_, request.header.data(), header_bytes, data.data, bytes, &params);
  if (UCS_PTR_IS_PTR(status)) return true;  // on_sent will follow
  recycle(request);
  if (!UCS_PTR_IS_ERR(status)) return true;
  failure_ = UCS_PTR_STATUS(status);
  return false;
}

void Outgoing::on_sent(void* request, ucs_status_t status, void* /*user_data*/) noexcept {
  Request& own = *static_cast<Request*>(request);
  Outgoing& outgoing = *own.owner;
  Message* message = own.message;
  if (status != UCS_OK && !outgoing.failure_) outgoing.failure_ = status;
  outgoing.recycle(own);
  if (message == nullptr) return;
  try {
    outgoing.finish_if_done(*message);
  } catch (const std::bad_alloc&) {  // there is no room to remember that it is sent
    if (!outgoing.failure_) outgoing.failure_ = UCS_ERR_NO_MEMORY;
  }
}

void Outgoing::recycle(Request& request) {
  if (request.message != nullptr) --request.message->under_way;
  free_.push_back(&request);
}

void Outgoing::finish_if_done(Message& message) {
  if (!message.whole_given || message.under_way != 0) return;
  finished_.push(message.token);
  free_messages_.push_back(&message);
}

bool Outgoing::withdraw() noexcept {
  const bool nothing = messages_.empty();
  while (!messages_.empty()) messages_.pop()->whole_given = true;
  return nothing;
}

void Outgoing::abandon() {
  if (!failure_) failure_ = UCS_ERR_CANCELED;
  while (!controls_.empty()) controls_.pop();
  while (!messages_.empty()) {
    Message& message = *messages_.pop();
    message.whole_given = true;
    finish_if_done(message);
  }
}

}  // namespace weft::ucx
