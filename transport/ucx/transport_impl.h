#pragma once
// Private to transport/ucx: the transport itself. connect.cpp brings the ranks together,
// transport_impl.cpp moves messages and parts.
#include <deque>
#include <exception>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "weft/transport/fifo.h"
#include "weft/transport/ucx/peer.h"
#include "weft/transport/ucx/ucx_transport.h"

namespace weft::ucx {

class UcxTransport final : public Transport {
 public:
  UcxTransport(std::uint32_t rank, std::uint32_t world_size, const Settings& settings);
  ~UcxTransport() override;
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  /// Makes the endpoints and returns when all ranks have heard from each other.
  void connect(const ByteExchange& exchange, const Settings& settings, const UcxOptions& options);

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t world_size() const noexcept override { return world_size_; }
  [[nodiscard]] Capabilities capabilities() const override;
  void attach(MessageSink& sink) override { sink_ = &sink; }
  void send(std::uint32_t to, const MessageHeader& header, ConstPayload payload, SendToken token) override;
  bool progress() override;
  [[nodiscard]] int descriptor() const noexcept override { return worker_.descriptor(); }
  bool arm() override;
  void wake() noexcept override { worker_.signal(); }
  void close(Nanoseconds deadline) override;

 private:
  /// A whole message that UCX puts into place by its rendezvous.
  struct Rendezvous {
    UcxTransport* transport = nullptr;
    Peer* peer = nullptr;
    Arrival arrival;
    void* descriptor = nullptr;
  };

  // Called by UCX from within progress. They copy and append, and let no exception out.
  static ucs_status_t on_message(void* peer, const void* header, std::size_t header_bytes, void* data,
                                 std::size_t bytes, const ucp_am_recv_param_t* param) noexcept;
  static void on_received(void* request, ucs_status_t status, std::size_t bytes, void* slot) noexcept;
  static void on_error(void* peer, ucp_ep_h endpoint, ucs_status_t status) noexcept;

  ucs_status_t receive(Peer& peer, std::span<const std::byte> header, std::span<const std::byte> data,
                       bool rendezvous);
  static void receive_control(Peer& peer, const Control& control);
  void begin_rendezvous(Peer& peer, std::span<const std::byte> header, void* descriptor, std::size_t bytes);
  bool continue_rendezvous();
  void end_rendezvous(Rendezvous& slot, ucs_status_t status);

  /// Everything of progress() but telling the sink.
  bool turn();
  bool tell();
  void rethrow();
  void part_from(Peer& peer);
  /// Everything given to UCX has left this process.
  bool flushed();
  void sleep(Nanoseconds deadline);
  void cut_all(Nanoseconds deadline) noexcept;

  std::uint32_t rank_;
  std::uint32_t world_size_;
  MessageSink* sink_ = nullptr;
  bool closing_ = false;
  std::set<std::string> lanes_;
  std::exception_ptr error_;  // of a callback
  Fifo<SendToken> sent_;
  Fifo<Arrival> delivered_;
  Fifo<Peer*> failed_;
  std::deque<Rendezvous> rendezvous_memory_;
  std::vector<Rendezvous*> free_rendezvous_;
  Fifo<Rendezvous*> rendezvous_;
  Context context_;
  std::vector<std::unique_ptr<Peer>> peers_;  // by rank, none for this one
  Worker worker_;                             // goes first: what stands above is pointed to by UCX
  void* flush_ = nullptr;
};

}  // namespace weft::ucx
