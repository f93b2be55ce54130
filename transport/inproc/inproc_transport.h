#pragma once
// Ranks that are threads of one process.
#include <cstdint>
#include <memory>
#include <vector>

#include "weft/transport/transport.h"

namespace weft {

/// One transport for each of `ranks` threads of this process; element r belongs to rank r's thread.
/// A payload is copied once, by the receiver, straight from the sender's memory to where its sink said.
/// A transport that is destroyed without close() is a failed rank to the others. Throws Error when the system
/// has no descriptor left.
[[nodiscard]] std::vector<std::unique_ptr<Transport>> make_inproc_transports(std::uint32_t ranks);

}  // namespace weft
