#include "weft/transport/ucx/context.h"

#include "weft/base/error.h"

namespace weft::ucx {

void check(ucs_status_t status, const std::string& what) {
  if (status != UCS_OK) throw TransportError("UCX: " + what + ": " + ucs_status_string(status));
}

ucs_memory_type_t memory_type(Device device) noexcept {
  return device.kind == DeviceKind::cuda ? UCS_MEMORY_TYPE_CUDA : UCS_MEMORY_TYPE_HOST;
}

Context::Context(const Settings& settings) {
  ucp_config_t* config = nullptr;
  check(ucp_config_read(nullptr, nullptr, &config), "cannot read the UCX_* variables");
  for (const auto& [key, value] : applicable(settings)) ucp_config_modify(config, key.c_str(), value.c_str());

  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  // With TAG, which weft does not use, UCX takes only transports that can wake a sleeping thread.
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP | UCP_FEATURE_TAG;
  params.name = "weft";
  const ucs_status_t status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  check(status, "cannot start (UCX_TLS and UCX_NET_DEVICES choose transports and devices)");

  ucp_context_attr_t attributes{};
  attributes.field_mask = UCP_ATTR_FIELD_REQUEST_SIZE | UCP_ATTR_FIELD_MEMORY_TYPES;
  ucp_context_query(context_, &attributes);
  request_bytes_ = attributes.request_size;
  moves_cuda_memory_ = (attributes.memory_types & UCS_BIT(UCS_MEMORY_TYPE_CUDA)) != 0;
}

Context::~Context() { ucp_cleanup(context_); }

}  // namespace weft::ucx
