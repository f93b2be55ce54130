// How the ranks of a run come together: facts about hosts, then addresses, then a greeting each way.
#include <fmt/format.h>

#include <algorithm>

#include "weft/base/error.h"
#include "weft/base/log.h"
#include "weft/transport/ucx/transport_impl.h"

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

}  // namespace

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
  // Nobody sends before all have come this far, so nothing arrives before a sink is attached.
  static_cast<void>(exchanged(exchange, {}, world_size_));
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
