#include "weft/transport/ucx/ucx_transport.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <deque>
#include <exception>
#include <set>
#include <string>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/transport/fifo.h"
#include "weft/transport/ucx/peer.h"

namespace weft {
namespace ucx {
namespace {

constexpr std::uint32_t most_ranks = 0xffff;  // a rank is the id of its active messages
constexpr std::size_t longest_answer = 64 * 1024;

std::vector<std::vector<std::byte>> exchanged(const ByteExchange& exchange, std::vector<std::byte> mine,
                                              std::uint32_t world_size) {
  auto all = exchange(std::move(mine));
  if (all.size() != world_size)
    throw TransportError(fmt::format("{} ranks answered instead of {}", all.size(), world_size));
  for (const auto& answer : all)
    if (answer.size() > longest_answer) throw TransportError("a rank's answer is too long");
  return all;
}

Settings agreed(const ByteExchange& exchange, std::uint32_t rank, std::uint32_t world_size) {
  std::vector<HostFacts> facts;
  for (const auto& bytes : exchanged(exchange, encode(observe_host()), world_size))
    facts.push_back(decode_host_facts(bytes));
  return agree(facts, rank);
}

/// Lanes that copy through CPU memory: chunks cost them nothing.
bool copies(const std::string& lane) { return lane == "posix" || lane == "sysv" || lane == "tcp"; }

constexpr int most_turns = 8;                     // of UCX in one progress(): about 4 MB
constexpr Nanoseconds cut_limit = 1'000'000'000;  // for UCX to let go of connections
constexpr Nanoseconds send_limit = 200'000'000;   // for what UCX holds to leave when the sink goes

std::string name(const Peer& peer) { return "rank " + std::to_string(peer.rank); }

}  // namespace

class UcxTransport final : public Transport {
 public:
  UcxTransport(std::uint32_t rank, std::uint32_t world_size, const Settings& settings);
  ~UcxTransport() override;

  /// Makes the endpoints and returns when all ranks have heard from each other.
  void connect(const ByteExchange& exchange, const Settings& settings, const UcxOptions& options);

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t world_size() const noexcept override { return world_size_; }
  [[nodiscard]] Capabilities capabilities() const override;
  void send(std::uint32_t to, const MessageHeader& header, ConstPayload payload, SendToken token) override;
  bool progress() override;
  [[nodiscard]] int descriptor() const noexcept override { return worker_.descriptor(); }
  bool arm() override;
  void wake() noexcept override { worker_.signal(); }
  void close(Nanoseconds deadline) override;

 protected:
  bool let_go() noexcept override;

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
  bool connected_ = false;
  bool closing_ = false;
  bool dropped_ = false;  // messages came while no sink was there
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

// How the ranks of a run come together: facts about hosts, then addresses, then a greeting each way.
void UcxTransport::connect(const ByteExchange& exchange, const Settings& settings,
                           const UcxOptions& options) {
  const auto addresses = exchanged(exchange, worker_.address(), world_size_);
  const std::size_t chunk = chunk_bytes(settings.segment_bytes);
  for (const auto& peer : peers_) {
    if (!peer) continue;
    const auto& address = addresses[peer->rank];
    if (address.empty()) throw TransportError(fmt::format("rank {} has no address", peer->rank));
    peer->endpoint.emplace(worker_, address, &UcxTransport::on_error, peer.get(),
                           fmt::format("rank {} cannot be reached", peer->rank));
    const std::string lane = peer->endpoint->lane();
    lanes_.insert(lane);
    const bool whole = options.payloads == PayloadPath::whole ||
                       (options.payloads == PayloadPath::automatic && !copies(lane));
    peer->outgoing.connect(peer->endpoint->handle(), whole ? 0 : chunk);
    peer->outgoing.post(Control{Control::What::hello, chunk});
  }

  const Nanoseconds deadline = now_ns() + options.connect_limit;
  const auto greeted = [](const std::unique_ptr<Peer>& peer) {
    return !peer || (peer->hello && peer->hello_answered && peer->hello_heard && peer->outgoing.idle());
  };
  for (;;) {
    const bool busy = turn();
    rethrow();
    if (!failed_.empty())
      throw PeerFailure(failed_.front()->rank,
                        fmt::format("rank {} was lost while the ranks connected ({})", failed_.front()->rank,
                                    ucs_status_string(*failed_.front()->failure)));
    for (const auto& peer : peers_) {
      if (!peer || !peer->hello || peer->hello_answered) continue;
      peer->hello_answered = true;
      peer->outgoing.post(Control{Control::What::hello_heard, 0});
    }
    if (std::all_of(peers_.begin(), peers_.end(), greeted) && flushed()) break;
    if (now_ns() > deadline) {
      const auto silent = std::find_if_not(peers_.begin(), peers_.end(), greeted);
      throw TransportError(fmt::format("{} within {:.1f} s",
                                       silent == peers_.end()
                                           ? "the connections were not ready"
                                           : fmt::format("rank {} did not answer", (*silent)->rank),
                                       static_cast<double>(options.connect_limit) / 1e9));
    }
    if (!busy) sleep(deadline);
  }
  // Nobody sends before all have come this far.
  static_cast<void>(exchanged(exchange, {}, world_size_));
  connected_ = true;
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
  static_cast<void>(sink());
  if (closing_) throw TransportError("a message after close()");
  context_.require_movable(payload.device);
  Peer& peer = *peers_[to];
  if (peer.gone || peer.failure) throw PeerFailure(to, name(peer) + " is gone");
  peer.outgoing.post(header, payload, token);
}

bool UcxTransport::progress() {
  static_cast<void>(sink());
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
  MessageSink& sink = this->sink();
  bool busy = false;
  while (!delivered_.empty()) {
    const Arrival arrival = delivered_.pop();
    sink.delivered(arrival.from, arrival.header, arrival.payload);
    busy = true;
  }
  while (!sent_.empty()) {
    sink.sent(sent_.pop());
    busy = true;
  }
  while (!failed_.empty()) {
    const Peer& peer = *failed_.pop();
    sink.peer_failed(
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
  if (!connected_) throw TransportError("a message from " + name(peer) + " before all were connected");
  if (!attached()) {  // the sink has gone, and its rank with it
    dropped_ = true;
    return rendezvous ? UCS_ERR_REJECTED : UCS_OK;
  }
  if (rendezvous) {
    begin_rendezvous(peer, header, const_cast<std::byte*>(data.data()), data.size());
    return UCS_INPROGRESS;
  }
  Arrival arrival;
  if (peer.incoming.add(sink(), header, data, arrival)) delivered_.push(arrival);
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
  const Arrival arrival = peer.incoming.begin_whole(sink(), header, bytes);
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
  UcxTransport& transport = *slot.transport;
  try {
    transport.end_rendezvous(slot, status);
  } catch (...) {
    if (!transport.error_) transport.error_ = std::current_exception();
  }
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

bool UcxTransport::let_go() noexcept {
  const auto holds_memory = [](const std::unique_ptr<Peer>& peer) {
    return peer && peer->endpoint && (peer->outgoing.under_way() || peer->receiving != 0);
  };
  const auto wait = [&](Nanoseconds limit) {
    const Nanoseconds deadline = now_ns() + limit;
    while (std::any_of(peers_.begin(), peers_.end(), holds_memory) && now_ns() < deadline) worker_.progress();
  };
  bool nothing_lost = delivered_.empty() && rendezvous_.empty();
  while (!rendezvous_.empty()) {
    Rendezvous& slot = *rendezvous_.pop();
    ucp_am_data_release(worker_.handle(), slot.descriptor);
    --slot.peer->receiving;
  }
  for (const auto& peer : peers_) {
    if (!peer) continue;
    nothing_lost &= peer->outgoing.withdraw();
    nothing_lost &= !peer->incoming.unfinished();
  }
  wait(send_limit);
  for (const auto& peer : peers_) {
    if (!holds_memory(peer)) continue;
    nothing_lost = false;  // the peer stands still: only without the connection UCX gives the memory back
    peer->gone = true;
    peer->endpoint->cut();
  }
  wait(cut_limit);
  while (!sent_.empty()) sent_.pop();
  while (!delivered_.empty()) delivered_.pop();
  return nothing_lost && !dropped_;
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

}  // namespace ucx

std::unique_ptr<Transport> make_ucx_transport(std::uint32_t rank, std::uint32_t world_size,
                                              const ByteExchange& exchange, const UcxOptions& options) {
  if (world_size > ucx::most_ranks || rank >= world_size)
    throw TransportError(fmt::format("rank {} of {} is not possible", rank, world_size));
  const ucx::Settings settings = ucx::agreed(exchange, rank, world_size);
  if (rank == 0 && !settings.warning.empty()) log::warning(settings.warning);
  auto transport = std::make_unique<ucx::UcxTransport>(rank, world_size, settings);
  transport->connect(exchange, settings, options);
  return transport;
}

}  // namespace weft
