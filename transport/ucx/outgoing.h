#pragma once
// Private to transport/ucx: what leaves for one peer. A bounded number of UCX sends is under way at a time,
// with requests that are made once.
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "weft/transport/fifo.h"
#include "weft/transport/transport.h"
#include "weft/transport/ucx/control.h"
#include "weft/transport/ucx/endpoint.h"

namespace weft::ucx {

class Outgoing {
 public:
  /// Sends that UCX may hold at a time: enough to keep it busy while the rank computes.
  static constexpr std::size_t most_requests = 16;

  /// `own_id` is the id under which the peer knows this rank. Tokens of finished sends go to `finished`.
  /// `request_bytes`: Context::request_bytes().
  Outgoing(std::uint16_t own_id, std::size_t request_bytes, Fifo<SendToken>& finished);
  ~Outgoing();
  Outgoing(const Outgoing&) = delete;
  Outgoing& operator=(const Outgoing&) = delete;

  /// `chunk_bytes`: the longest payload of one UCX message; 0 for no limit. Device memory leaves whole.
  void connect(ucp_ep_h endpoint, std::size_t chunk_bytes) noexcept;
  /// Takes a message and sends what can be sent of it now.
  void post(const MessageHeader& header, ConstPayload payload, SendToken token);
  void post(const Control& control);
  /// Sends what can be sent now. True when anything was.
  bool pump();
  /// Drops what has not been given to UCX, half-sent messages included; true when that was nothing.
  bool withdraw() noexcept;
  /// The peer is gone: what has not been given to UCX is dropped, its payloads are free.
  void abandon();

  /// Nothing waits and nothing is under way.
  [[nodiscard]] bool idle() const noexcept {
    return messages_.empty() && controls_.empty() && free_.size() == most_requests;
  }
  /// UCX holds a payload or request of ours.
  [[nodiscard]] bool under_way() const noexcept { return free_.size() != most_requests; }
  [[nodiscard]] std::uint64_t posted() const noexcept { return posted_; }
  /// The reason why UCX refuses to send, once it does.
  [[nodiscard]] std::optional<ucs_status_t> failure() const noexcept { return failure_; }

 private:
  struct Message {
    MessageHeader header;
    ConstPayload payload;
    SendToken token = 0;
    std::uint64_t offset = 0;     // of the next chunk
    std::uint32_t under_way = 0;  // chunks
    bool whole_given = false;     // all chunks have been given to UCX
  };
  /// UCX writes its own part of the request in front of this.
  struct Request {
    std::array<std::byte, MessageHeader::wire_bytes> header;
    Outgoing* owner = nullptr;
    Message* message = nullptr;  // null: a control message
  };
  struct Release {
    void operator()(std::byte* memory) const noexcept { ::operator delete (memory, std::align_val_t{64}); }
  };

  static void on_sent(void* request, ucs_status_t status, void* user_data) noexcept;
  bool give_chunk(Message& message);
  bool give(Request& request, std::size_t header_bytes, ConstPayload data, std::size_t bytes,
            std::uint32_t flags);
  void recycle(Request& request);
  void finish_if_done(Message& message);

  std::uint16_t own_id_;
  Fifo<SendToken>& finished_;
  ucp_ep_h endpoint_ = nullptr;
  std::size_t chunk_bytes_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint64_t posted_ = 0;
  std::optional<ucs_status_t> failure_;
  std::unique_ptr<std::byte, Release> request_memory_;
  std::vector<Request*> free_;
  std::deque<Message> message_memory_;  // grows with the most messages waiting at once; addresses stay
  std::vector<Message*> free_messages_;
  Fifo<Message*> messages_;
  Fifo<Control> controls_;
};

}  // namespace weft::ucx
