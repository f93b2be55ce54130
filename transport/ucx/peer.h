#pragma once
// Private to transport/ucx: everything about one other rank.
#include <cstdint>
#include <optional>

#include "weft/transport/ucx/assembly.h"
#include "weft/transport/ucx/endpoint.h"
#include "weft/transport/ucx/outgoing.h"

namespace weft::ucx {

class UcxTransport;

struct Peer {
  Peer(UcxTransport& owner, std::uint32_t number, std::uint16_t own_id, std::size_t request_bytes,
       Fifo<SendToken>& finished)
      : transport(owner), rank(number), outgoing(own_id, request_bytes, finished), incoming(number) {}

  /// It has said goodbye and all it sent has arrived.
  [[nodiscard]] bool finished() const noexcept { return goodbye == incoming.complete() && receiving == 0; }

  UcxTransport& transport;
  std::uint32_t rank;
  Outgoing outgoing;  // outlives the worker, since UCX holds its requests
  Assembly incoming;
  std::optional<Endpoint> endpoint;
  std::uint32_t receiving = 0;  // whole messages that UCX puts into the sink's memory

  bool hello = false;  // heard from it
  bool hello_answered = false;
  bool hello_heard = false;  // it has heard us
  std::optional<std::uint64_t> goodbye;
  bool goodbye_answered = false;
  bool goodbye_sent = false;
  bool goodbye_heard = false;  // it has everything from us

  std::optional<ucs_status_t> failure;  // UCX says that it is gone
  bool gone = false;                    // and we have dealt with it
};

}  // namespace weft::ucx
