#pragma once
// Private to transport/ucx: the connection to one peer.
#include <ucp/api/ucp.h>

#include <cstddef>
#include <span>
#include <string>

#include "weft/transport/ucx/worker.h"

namespace weft::ucx {

class Endpoint {
 public:
  /// `on_error(argument, endpoint, status)` is called from within progress, once, when the peer is gone.
  /// `worker` outlives the endpoint. Throws TransportError, beginning with `otherwise`, when the address
  /// leads nowhere.
  Endpoint(Worker& worker, std::span<const std::byte> address, ucp_err_handler_cb_t on_error, void* argument,
           const std::string& otherwise);
  /// Closed before, or else the connection is cut now.
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  [[nodiscard]] ucp_ep_h handle() const noexcept { return endpoint_; }
  /// UCX's name of what carries active messages to this peer: "posix", "sysv", "tcp", "rc_mlx5", ...
  [[nodiscard]] std::string lane() const;
  /// Starts to cut the connection: sends under way end with an error in later progress.
  void cut() noexcept;
  /// The connection is cut and nothing of it is under way any more.
  [[nodiscard]] bool is_cut() noexcept;

 private:
  ucp_ep_h endpoint_ = nullptr;
  void* closing_ = nullptr;  // UCX's request
  bool cut_ = false;
};

}  // namespace weft::ucx
