#include "weft/transport/simulated/simulated_network.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

/// A message under way.
struct Message {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  MessageHeader header;
  const std::byte* payload = nullptr;  // the sender's
  std::vector<std::byte> copy;         // or our own, when the sender may have its memory back before
  bool sender_told = false;            // or it is on the way to be told
  Payload target;                      // the receiver's, once accepted
  bool accepted = false;
  SendToken token = 0;
};

enum class What : std::uint8_t { begins, arrives, is_sent, peer_fails };

/// Something that happens to one rank.
struct Event {
  What what;
  std::shared_ptr<Message> message;
  std::uint32_t peer = 0;
};

}  // namespace

struct SimulatedNetwork::State {
  struct Member {
    std::multimap<Nanoseconds, Event> events;  // of equal times, the first made comes first
    bool taken = false;
    bool closed = false;
    bool gone = false;
    std::vector<bool> knows_dead;
    std::vector<std::uint32_t> sequence;  // by receiver
  };

  State(std::uint32_t ranks, std::uint64_t seed, SimulatedDelays how_long)
      : random(seed), delays(how_long), members(ranks) {
    for (Member& member : members) {
      member.knows_dead.resize(ranks);
      member.sequence.resize(ranks);
    }
  }

  Nanoseconds delay() {
    const auto span = static_cast<std::uint64_t>(delays.longest - delays.shortest + 1);
    const auto usual = delays.shortest + static_cast<Nanoseconds>(random() % span);
    return random() % 8 == 0 ? usual * static_cast<Nanoseconds>(1 + random() % 10) : usual;
  }
  void happen(std::uint32_t rank, Nanoseconds time, Event event) {
    if (!members[rank].gone) members[rank].events.emplace(time, std::move(event));
  }
  /// The sender will be told that it has its payload back.
  void give_back(const std::shared_ptr<Message>& message) {
    if (std::exchange(message->sender_told, true)) return;
    happen(message->from, now + delay(), {What::is_sent, message});
  }
  static void copy_payload(Message& message) {
    if (message.header.payload_bytes == 0) return;
    message.copy.assign(message.payload, message.payload + message.header.payload_bytes);
    message.payload = message.copy.data();
  }
  void keep_payloads_of(std::uint32_t rank);
  void leave(std::uint32_t rank);
  void kill(std::uint32_t rank);

  std::mt19937_64 random;
  SimulatedDelays delays;
  Nanoseconds now = 0;
  std::vector<Member> members;
  std::function<bool(std::uint32_t, std::uint32_t, const MessageHeader&)> lose;
};

void SimulatedNetwork::State::keep_payloads_of(std::uint32_t rank) {
  for (Member& member : members)
    for (auto& [time, event] : member.events) {
      if (event.what != What::arrives || event.message->from != rank || event.message->sender_told) continue;
      copy_payload(*event.message);
      give_back(event.message);
    }
}

/// The rank receives nothing any more; senders get their payloads back.
void SimulatedNetwork::State::leave(std::uint32_t rank) {
  Member& member = members[rank];
  member.gone = true;
  for (auto& [time, event] : std::exchange(member.events, {}))
    if (event.what == What::arrives) give_back(event.message);
}

void SimulatedNetwork::State::kill(std::uint32_t rank) {
  if (members[rank].gone) return;
  leave(rank);
  for (std::uint32_t other = 0; other < members.size(); ++other) {
    std::erase_if(members[other].events, [rank](const auto& entry) {
      const Event& event = entry.second;
      return (event.what == What::begins || event.what == What::arrives) && event.message->from == rank;
    });
    happen(other, now + delay(), {What::peer_fails, nullptr, rank});
  }
}

class SimulatedNetwork::Rank final : public Transport {
 public:
  Rank(State& network, std::uint32_t rank) : network_(network), rank_(rank) {}
  ~Rank() override {
    if (!own().closed) network_.kill(rank_);
    network_.leave(rank_);
  }

  [[nodiscard]] std::uint32_t rank() const noexcept override { return rank_; }
  [[nodiscard]] std::uint32_t world_size() const noexcept override {
    return static_cast<std::uint32_t>(network_.members.size());
  }
  [[nodiscard]] Capabilities capabilities() const override { return {"simulated", false}; }
  void send(std::uint32_t to, const MessageHeader& header, ConstPayload payload, SendToken token) override;
  bool progress() override;
  [[nodiscard]] int descriptor() const noexcept override { return -1; }
  bool arm() override { return own().events.empty() || own().events.begin()->first > network_.now; }
  void wake() noexcept override {}
  void close(Nanoseconds /*deadline*/) override {
    own().closed = true;
    network_.keep_payloads_of(rank_);
  }

 protected:
  bool let_go() noexcept override;

 private:
  [[nodiscard]] State::Member& own() { return network_.members[rank_]; }
  void happened(const Event& event);

  State& network_;
  std::uint32_t rank_;
};

void SimulatedNetwork::Rank::send(std::uint32_t to, const MessageHeader& header, ConstPayload payload,
                                  SendToken token) {
  if (to >= world_size() || to == rank_)
    throw TransportError("rank " + std::to_string(rank_) + " cannot send to rank " + std::to_string(to));
  static_cast<void>(sink());
  if (own().closed) throw TransportError("a message after close()");
  require_cpu("the simulated network", payload.device);
  if (own().knows_dead[to]) throw PeerFailure(to, "rank " + std::to_string(to) + " is gone");
  if (own().gone) return;
  auto message = std::make_shared<Message>();
  message->from = rank_;
  message->to = to;
  message->header = header;
  message->header.chunk = 0;
  message->header.sequence = own().sequence[to]++;
  message->payload = payload.data;
  message->token = token;
  const bool lost = network_.members[to].gone || (network_.lose && network_.lose(rank_, to, header));
  if (lost || network_.random() % 2 == 0) {
    State::copy_payload(*message);
    network_.give_back(message);
  }
  if (lost) return;
  const Nanoseconds begins = network_.now + network_.delay();
  network_.happen(to, begins, {What::begins, message});
  network_.happen(to, begins + network_.delay(), {What::arrives, message});
}

bool SimulatedNetwork::Rank::progress() {
  if (own().gone) return false;
  static_cast<void>(sink());
  bool busy = false;
  auto& events = own().events;
  while (!events.empty() && events.begin()->first <= network_.now) {
    const Event event = std::move(events.begin()->second);
    events.erase(events.begin());  // first, since the sink may throw or send
    happened(event);
    busy = true;
  }
  return busy;
}

void SimulatedNetwork::Rank::happened(const Event& event) {
  MessageSink& sink = this->sink();
  switch (event.what) {
    case What::begins:
      event.message->target = sink.accept(event.message->from, event.message->header);
      require_cpu("the simulated network", event.message->target.device);
      event.message->accepted = true;
      break;
    case What::arrives: {
      Message& message = *event.message;
      if (message.accepted && message.header.payload_bytes != 0)
        std::memcpy(message.target.data, message.payload, message.header.payload_bytes);
      network_.give_back(event.message);
      if (message.accepted) sink.delivered(message.from, message.header, message.target);
      break;
    }
    case What::is_sent:
      sink.sent(event.message->token);
      break;
    case What::peer_fails:
      own().knows_dead[event.peer] = true;
      sink.peer_failed(event.peer, "rank " + std::to_string(event.peer) + " was killed");
      break;
  }
}

// What the rank sent still arrives, what it had begun to receive does not.
bool SimulatedNetwork::Rank::let_go() noexcept {
  network_.keep_payloads_of(rank_);
  std::erase_if(own().events, [](const auto& entry) { return entry.second.what == What::is_sent; });
  bool nothing_lost = true;
  for (auto& [time, event] : own().events)
    if (event.what == What::arrives && event.message->accepted) {
      event.message->accepted = false;
      nothing_lost = false;
    }
  return nothing_lost;
}

SimulatedNetwork::SimulatedNetwork(std::uint32_t ranks, std::uint64_t seed, SimulatedDelays delays)
    : state_(std::make_unique<State>(ranks, seed, delays)) {}

SimulatedNetwork::~SimulatedNetwork() = default;

std::unique_ptr<Transport> SimulatedNetwork::transport(std::uint32_t rank) {
  if (std::exchange(state_->members.at(rank).taken, true))
    throw TransportError("the transport of rank " + std::to_string(rank) + " is taken already");
  return std::make_unique<Rank>(*state_, rank);
}

Nanoseconds SimulatedNetwork::now() const noexcept { return state_->now; }

bool SimulatedNetwork::step() {
  const Nanoseconds never = INT64_MAX;
  Nanoseconds next = never;
  for (const State::Member& member : state_->members)
    if (!member.events.empty()) next = std::min(next, member.events.begin()->first);
  if (next == never) return false;
  state_->now = std::max(state_->now, next);
  return true;
}

void SimulatedNetwork::kill(std::uint32_t rank) { state_->kill(rank); }

void SimulatedNetwork::lose(
    std::function<bool(std::uint32_t from, std::uint32_t to, const MessageHeader&)> lose) {
  state_->lose = std::move(lose);
}

}  // namespace weft
