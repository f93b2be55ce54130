#include "weft/transport/ucx/worker.h"

namespace weft::ucx {

Worker::Worker(const Context& context) {
  ucp_worker_params_t params{};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SINGLE;
  check(ucp_worker_create(context.handle(), &params, &worker_), "cannot set up the transports");
  const ucs_status_t status = ucp_worker_get_efd(worker_, &descriptor_);
  if (status != UCS_OK) ucp_worker_destroy(worker_);
  check(status, "no descriptor for wake-ups");
}

Worker::~Worker() { ucp_worker_destroy(worker_); }

std::vector<std::byte> Worker::address() const {
  ucp_address_t* address = nullptr;
  std::size_t length = 0;
  check(ucp_worker_get_address(worker_, &address, &length), "no address");
  const auto* bytes = reinterpret_cast<const std::byte*>(address);
  std::vector<std::byte> copy(bytes, bytes + length);
  ucp_worker_release_address(worker_, address);
  return copy;
}

void Worker::on_message(std::uint16_t id, ucp_am_recv_callback_t callback, void* argument) {
  ucp_am_handler_param_t params{};
  params.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                      UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  params.id = id;
  params.flags = UCP_AM_FLAG_WHOLE_MSG;
  params.cb = callback;
  params.arg = argument;
  check(ucp_worker_set_am_recv_handler(worker_, &params), "cannot receive active messages");
}

bool Worker::arm() {
  const ucs_status_t status = ucp_worker_arm(worker_);
  if (status == UCS_ERR_BUSY) return false;
  check(status, "cannot wait for messages");
  return true;
}

}  // namespace weft::ucx
