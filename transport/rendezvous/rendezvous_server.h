#pragma once
// The launcher's side: one listening socket, one thread. It brings the ranks together, hands out their
// addresses, watches their heartbeats and passes failures and stop requests on. It starts and ends no
// process.
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/transport/rendezvous/control_client.h"
#include "weft/transport/rendezvous/pace.h"
#include "weft/transport/rendezvous/run_token.h"

namespace weft {

struct RendezvousOptions {
  std::uint32_t world_size = 1;
  RunToken token{};
  std::string bind_address = "127.0.0.1";             ///< a numeric address; the port is chosen by the system
  std::chrono::milliseconds heartbeat_limit{10'000};  ///< silence or standstill for so long is a failure
  std::chrono::milliseconds join_limit{300'000};      ///< from the first rank's arrival to the last's
  std::chrono::milliseconds handshake_limit{5'000};   ///< for a connection to prove that it knows the token
};

/// What the server has to tell its owner. `what` is a whole sentence that names the rank.
struct RendezvousEvent {
  enum class Kind {
    joined,     ///< `rank` has proved who it is
    done,       ///< `rank` has ended its work
    failed,     ///< `rank` failed and told its reason
    found,      ///< `rank` was found stopped, stuck or different from others
    lost_peer,  ///< `rank` gave up since `peer` is gone: a consequence more likely than a cause
    left,       ///< the connection of `rank` ended although it had not said done
    pace,       ///< a step or a save of `rank` took longer than all before, of any rank
  };
  Kind kind;
  std::uint32_t rank = 0;
  std::uint32_t peer = 0;
  std::string what;
  Pace pace{};  ///< of the whole run
};

class RendezvousServer {
 public:
  /// Listens. Throws TransportError when the address cannot be bound.
  explicit RendezvousServer(const RendezvousOptions& options);
  /// Closes every connection, which is how remaining ranks learn that the launcher has gone.
  ~RendezvousServer();
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept;

  /// A descriptor that polls readable while `next_event` has something; owned by the server.
  [[nodiscard]] int event_descriptor() const noexcept;
  [[nodiscard]] std::optional<RendezvousEvent> next_event();

  /// Tells all ranks the first cause of the run's end. Later calls do nothing.
  void announce_failure(const Failure& cause);
  /// Asks all ranks, those that join later too, to stop at their next step's end.
  void request_stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace weft
