#pragma once
// Private to transport/ucx: the UCX context, the owner of everything else of UCX.
#include <ucp/api/ucp.h>

#include <string>
#include <vector>

#include "weft/transport/payload.h"
#include "weft/transport/ucx/settings.h"

namespace weft::ucx {

/// Throws TransportError, saying what failed and UCX's words, unless `status` is UCS_OK.
void check(ucs_status_t status, const std::string& what);

/// UCX's word for where memory of `device` lies; told with every payload, so that UCX need not find out.
[[nodiscard]] ucs_memory_type_t memory_type(Device device) noexcept;

class Context {
 public:
  /// Throws TransportError when UCX refuses the settings or finds no transport.
  explicit Context(const Settings& settings);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  [[nodiscard]] ucp_context_h handle() const noexcept { return context_; }
  /// Bytes that UCX needs in front of a request that the caller brings.
  [[nodiscard]] std::size_t request_bytes() const noexcept { return request_bytes_; }
  /// UCX can move memory of CUDA devices. A device pointer given to one that cannot ends the process.
  [[nodiscard]] bool moves_cuda_memory() const noexcept { return moves_cuda_memory_; }
  /// Throws TransportError unless UCX can move memory of `device`.
  void require_movable(Device device) const {
    if (!moves_cuda_memory_) require_cpu("this UCX", device);
  }

 private:
  ucp_context_h context_ = nullptr;
  std::size_t request_bytes_ = 0;
  bool moves_cuda_memory_ = false;
};

}  // namespace weft::ucx
