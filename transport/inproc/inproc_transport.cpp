#include "weft/transport/inproc/inproc_transport.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>

#include "weft/base/error.h"
#include "weft/transport/fifo.h"
#include "weft/transport/inproc/message_ring.h"

namespace weft {
namespace {

/// How far a rank's end has come.
enum class Presence : std::uint8_t { here, finished, left, failed };

/// What the threads share: a ring for each ordered pair, a bell and a state for each rank.
class Network {
 public:
  explicit Network(std::uint32_t ranks)
      : ranks_(ranks),
        rings_(std::make_unique<MessageRing[]>(std::size_t{ranks} * ranks)),
        bells_(std::make_unique<Doorbell[]>(ranks)),
        presence_(std::make_unique<std::atomic<Presence>[]>(ranks)) {}

  [[nodiscard]] std::uint32_t ranks() const noexcept { return ranks_; }
  [[nodiscard]] MessageRing& ring(std::uint32_t from, std::uint32_t to) noexcept {
    return rings_[std::size_t{from} * ranks_ + to];
  }
  [[nodiscard]] Doorbell& bell(std::uint32_t rank) noexcept { return bells_[rank]; }
  [[nodiscard]] Presence presence(std::uint32_t rank) const noexcept { return presence_[rank].load(); }
  [[nodiscard]] std::uint64_t changes() const noexcept { return changes_.load(); }

  void set_presence(std::uint32_t rank, Presence presence) noexcept {
    presence_[rank].store(presence);
    changes_.fetch_add(1);
    for (std::uint32_t other = 0; other < ranks_; ++other)
      if (other != rank) bells_[other].ring();
  }

 private:
  std::uint32_t ranks_;
  std::unique_ptr<MessageRing[]> rings_;
  std::unique_ptr<Doorbell[]> bells_;
  std::unique_ptr<std::atomic<Presence>[]> presence_;
  std::atomic<std::uint64_t> changes_{0};  // of any presence: one load tells that nobody has left
};

/// Ends the reading of a sender's memory, also when the sink throws.
class Reading {
 public:
  explicit Reading(MessageRing& ring) noexcept : ring_(ring), allowed_(ring.begin_reading()) {}
  ~Reading() {
    if (allowed_) ring_.end_reading();
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
  explicit operator bool() const noexcept { return allowed_; }

 private:
  MessageRing& ring_;
  bool allowed_;
};

class InprocTransport final : public Transport {
 public:
  InprocTransport(std::shared_ptr<Network> network, std::uint32_t rank)
      : network_(std::move(network)), rank_(rank), peers_(network_->ranks()) {}
  ~InprocTransport() override {
    for (std::uint32_t peer = 0; peer < world_size(); ++peer) network_->ring(rank_, peer).retract();
    const bool clean = network_->presence(rank_) == Presence::finished;
    network_->set_presence(rank_, clean ? Presence::left : Presence::failed);
  }

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t world_size() const noexcept override { return network_->ranks(); }
  [[nodiscard]] Capabilities capabilities() const override { return {"inproc", false}; }

  void send(std::uint32_t to, const MessageHeader& header, ConstPayload payload, SendToken token) override;
  bool progress() override;
  [[nodiscard]] int descriptor() const noexcept override { return network_->bell(rank_).descriptor(); }
  bool arm() override;
  void wake() noexcept override { network_->bell(rank_).ring_always(); }
  void close(Nanoseconds deadline) override;

 protected:
  bool let_go() noexcept override;

 private:
  struct Peer {
    std::uint64_t written = 0;   // messages put into the ring to the peer
    std::uint64_t reported = 0;  // of these, how many the sink knows as sent
    std::uint64_t consumed = 0;  // messages taken from the ring from the peer
    std::uint32_t sequence = 0;
    bool gone = false;
    Fifo<MessageRing::Message> waiting;  // no room in the ring
  };

  void put(std::uint32_t to, const MessageRing::Message& message);
  bool settle(std::uint32_t to);
  bool receive(std::uint32_t from);
  bool notice_departures();
  void part_from(std::uint32_t peer, Presence how);
  [[nodiscard]] bool all_sent() const noexcept;
  [[nodiscard]] bool all_finished() const noexcept;

  std::shared_ptr<Network> network_;
  std::uint32_t rank_;
  std::vector<Peer> peers_;
  std::uint64_t seen_changes_ = 0;
  bool closing_ = false;
};

void InprocTransport::send(std::uint32_t to, const MessageHeader& header, ConstPayload payload,
                           SendToken token) {
  if (to >= world_size() || to == rank_)
    throw TransportError("rank " + std::to_string(rank_) + " cannot send to rank " + std::to_string(to));
  static_cast<void>(sink());
  if (closing_) throw TransportError("a message after close()");
  require_cpu("inproc", payload.device);
  Peer& peer = peers_[to];
  if (peer.gone) throw PeerFailure(to, "rank " + std::to_string(to) + " is gone");
  MessageRing::Message message{header, payload, token};
  message.header.chunk = 0;
  message.header.sequence = peer.sequence++;
  if (peer.waiting.empty() && peer.written - peer.reported < MessageRing::capacity)
    put(to, message);
  else
    peer.waiting.push(message);
}

void InprocTransport::put(std::uint32_t to, const MessageRing::Message& message) {
  MessageRing& ring = network_->ring(rank_, to);
  ring.slot(peers_[to].written) = message;
  ring.publish(++peers_[to].written);
  network_->bell(to).ring();
}

bool InprocTransport::progress() {
  static_cast<void>(sink());
  if (network_->bell(rank_).asleep()) network_->bell(rank_).end_sleep();
  bool busy = network_->changes() != seen_changes_ && notice_departures();
  for (std::uint32_t peer = 0; peer < world_size(); ++peer) {
    if (peer == rank_) continue;
    busy |= settle(peer);
    busy |= receive(peer);
  }
  return busy;
}

bool InprocTransport::settle(std::uint32_t to) {
  Peer& peer = peers_[to];
  MessageRing& ring = network_->ring(rank_, to);
  const std::uint64_t consumed = peer.gone ? peer.written : ring.consumed();
  if (peer.reported == consumed) return false;
  while (peer.reported != consumed) {
    const SendToken token = ring.slot(peer.reported).token;
    ++peer.reported;
    sink().sent(token);
  }
  while (!peer.gone && !peer.waiting.empty() && peer.written - peer.reported < MessageRing::capacity)
    put(to, peer.waiting.pop());
  return true;
}

bool InprocTransport::receive(std::uint32_t from) {
  Peer& peer = peers_[from];
  MessageRing& ring = network_->ring(from, rank_);
  const std::uint64_t written = ring.written();
  if (peer.consumed == written) return false;
  const Reading reading(ring);
  if (!reading) return false;
  while (peer.consumed != written) {
    const MessageRing::Message message = ring.slot(peer.consumed);
    ++peer.consumed;
    Payload to;
    try {
      to = sink().accept(from, message.header);
      require_cpu("inproc", to.device);
      if (message.header.payload_bytes != 0)
        std::memcpy(to.data, message.payload.data, message.header.payload_bytes);
    } catch (...) {
      ring.consume(peer.consumed);
      network_->bell(from).ring();
      throw;
    }
    ring.consume(peer.consumed);
    network_->bell(from).ring();
    sink().delivered(from, message.header, to);
  }
  return true;
}

bool InprocTransport::notice_departures() {
  seen_changes_ = network_->changes();
  bool busy = false;
  for (std::uint32_t peer = 0; peer < world_size(); ++peer) {
    const Presence presence = network_->presence(peer);
    if (peer == rank_ || peers_[peer].gone || presence < Presence::left) continue;
    part_from(peer, presence);
    busy = true;
  }
  return busy;
}

void InprocTransport::part_from(std::uint32_t number, Presence how) {
  Peer& peer = peers_[number];
  const bool undelivered = !peer.waiting.empty() || peer.written != network_->ring(rank_, number).consumed();
  peer.gone = true;
  settle(number);
  while (!peer.waiting.empty()) sink().sent(peer.waiting.pop().token);
  const std::string name = "rank " + std::to_string(number);
  if (how == Presence::failed)
    sink().peer_failed(number, name + " ended without a goodbye");
  else if (undelivered)
    sink().peer_failed(number, name + " left before it had received everything");
}

bool InprocTransport::arm() {
  Doorbell& bell = network_->bell(rank_);
  if (!bell.begin_sleep()) return false;
  bool work = network_->changes() != seen_changes_;
  for (std::uint32_t peer = 0; peer < world_size() && !work; ++peer) {
    if (peer == rank_ || peers_[peer].gone) continue;
    const MessageRing& from = network_->ring(peer, rank_);
    work = (from.written() != peers_[peer].consumed && !from.retracted()) ||
           network_->ring(rank_, peer).consumed() != peers_[peer].reported;
  }
  if (work) bell.end_sleep();
  return !work;
}

// Receivers read payloads where they lie: those not yet read are withdrawn.
bool InprocTransport::let_go() noexcept {
  bool nothing_lost = true;
  for (std::uint32_t to = 0; to < world_size(); ++to) {
    Peer& peer = peers_[to];
    if (to == rank_ || peer.gone) continue;
    MessageRing& ring = network_->ring(rank_, to);
    bool unread = !peer.waiting.empty();
    for (std::uint64_t number = ring.consumed(); number != peer.written && !unread; ++number)
      unread = ring.slot(number).header.payload_bytes != 0;
    if (!unread) continue;
    ring.retract();
    while (!peer.waiting.empty()) peer.waiting.pop();
    nothing_lost = false;
  }
  return nothing_lost;
}

bool InprocTransport::all_sent() const noexcept {
  return std::all_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.gone || (peer.waiting.empty() && peer.reported == peer.written);
  });
}

bool InprocTransport::all_finished() const noexcept {
  for (std::uint32_t peer = 0; peer < world_size(); ++peer)
    if (peer != rank_ && network_->presence(peer) == Presence::here) return false;
  return true;
}

void InprocTransport::close(Nanoseconds deadline) {
  closing_ = true;
  for (;;) {
    const bool busy = progress();
    if (all_sent() && network_->presence(rank_) == Presence::here)
      network_->set_presence(rank_, Presence::finished);
    if (network_->presence(rank_) == Presence::finished && all_finished()) return;
    const Nanoseconds left = deadline - now_ns();
    if (left <= 0) return;
    if (busy || !arm()) continue;
    pollfd wait{descriptor(), POLLIN, 0};
    poll(&wait, 1, static_cast<int>(std::min<Nanoseconds>(left / 1'000'000 + 1, 10)));
  }
}

}  // namespace

std::vector<std::unique_ptr<Transport>> make_inproc_transports(std::uint32_t ranks) {
  auto network = std::make_shared<Network>(ranks);
  std::vector<std::unique_ptr<Transport>> transports;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    transports.push_back(std::make_unique<InprocTransport>(network, rank));
  return transports;
}

}  // namespace weft
