#pragma once
// Ranks that are processes, on one host or many, joined by UCX active messages.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "weft/transport/transport.h"

namespace weft {

/// Gives `mine` to all ranks and returns everyone's, by rank: ControlClient::exchange, or pipes in tests.
/// Collective; it is called three times. At most 64 KiB.
using ByteExchange = std::function<std::vector<std::vector<std::byte>>(std::vector<std::byte> mine)>;

/// How payloads travel. `automatic` takes chunks to peers that are reached through shared memory or TCP:
/// copied by the receiver straight into its buffer, they need no answer from a receiver that is busy and
/// allocate nothing. Other lanes (InfiniBand, ...) take whole messages, and UCX its rendezvous protocol.
enum class PayloadPath { automatic, chunks, whole };

struct UcxOptions {
  PayloadPath payloads = PayloadPath::automatic;
  Nanoseconds connect_limit = 60'000'000'000;  ///< for all ranks to reach each other
};

/// Connects `rank` with all others; returns when every rank has heard from every other. All ranks call it.
/// One worker, used by the calling thread only. Settings: weft's defaults, which yield to any UCX_* variable
/// (UCX_TLS=tcp,self, ...); where shared memory is too small the next transport is taken with a warning.
///
/// The sink's accept() is called from within UCX and must not call send(); the other functions may. A peer
/// that dies is found within a second (UCX_KEEPALIVE_INTERVAL) once its parent has reaped it; one that stands
/// still is not found here.
///
/// Throws TransportError when UCX cannot be set up, settings differ between ranks, or a rank is not reached;
/// PeerFailure when a rank dies meanwhile; and what `exchange` throws.
[[nodiscard]] std::unique_ptr<Transport> make_ucx_transport(std::uint32_t rank, std::uint32_t world_size,
                                                            const ByteExchange& exchange,
                                                            const UcxOptions& options = {});

}  // namespace weft
