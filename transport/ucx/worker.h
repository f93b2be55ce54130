#pragma once
// Private to transport/ucx: the UCX worker, one a rank, used by one thread.
#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "weft/transport/ucx/context.h"

namespace weft::ucx {

class Worker {
 public:
  /// `context` outlives the worker. Throws TransportError.
  explicit Worker(const Context& context);
  /// Endpoints are gone by now. Sends that are still on their way are cancelled, and reported so.
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  [[nodiscard]] ucp_worker_h handle() const noexcept { return worker_; }
  /// What others need to make an endpoint.
  [[nodiscard]] std::vector<std::byte> address() const;
  /// Calls `callback(argument, ...)` for active messages with this id.
  void on_message(std::uint16_t id, ucp_am_recv_callback_t callback, void* argument);

  bool progress() noexcept { return ucp_worker_progress(worker_) != 0; }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// False when there is work. Throws TransportError.
  [[nodiscard]] bool arm();
  /// Makes the descriptor readable; from any thread.
  void signal() noexcept { ucp_worker_signal(worker_); }

 private:
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
};

}  // namespace weft::ucx
