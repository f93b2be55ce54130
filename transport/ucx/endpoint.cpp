#include "weft/transport/ucx/endpoint.h"

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace weft::ucx {
namespace {

/// Reads UCX's own description of an endpoint, since 1.13 has no call that names its lanes:
/// "#   lane[0]:  1:posix/memory.0 md[1]  -> md[1]/posix/sysdev[255] am am_bw#0".
std::string lane_of(std::string_view description) {
  while (!description.empty()) {
    const auto end = std::min(description.find('\n'), description.size() - 1);
    const std::string_view line = description.substr(0, end + 1);
    description.remove_prefix(end + 1);
    const auto lane = line.find("lane[");
    const auto use = line.find(" am");
    if (lane == std::string_view::npos || use == std::string_view::npos) continue;
    if (line[use + 3] != ' ' && line[use + 3] != '\n') continue;
    const auto colon = line.find(':', line.find("]:", lane) + 2);
    const auto slash = line.find('/', colon);
    if (colon == std::string_view::npos || slash == std::string_view::npos) continue;
    return std::string(line.substr(colon + 1, slash - colon - 1));
  }
  return "unknown";
}

}  // namespace

Endpoint::Endpoint(Worker& worker, std::span<const std::byte> address, ucp_err_handler_cb_t on_error,
                   void* argument, const std::string& otherwise) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler.cb = on_error;
  params.err_handler.arg = argument;
  check(ucp_ep_create(worker.handle(), &params, &endpoint_), otherwise);
}

Endpoint::~Endpoint() {
  cut();
  if (closing_ != nullptr) ucp_request_free(closing_);
}

std::string Endpoint::lane() const {
  char* text = nullptr;
  std::size_t length = 0;
  std::FILE* file = open_memstream(&text, &length);
  if (file == nullptr) return "unknown";
  ucp_ep_print_info(endpoint_, file);
  std::fclose(file);
  std::string name = lane_of(std::string_view(text, length));
  std::free(text);
  return name;
}

void Endpoint::cut() noexcept {
  if (cut_) return;
  cut_ = true;
  ucp_request_param_t params{};
  params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  params.flags = UCP_EP_CLOSE_FLAG_FORCE;
  void* request = ucp_ep_close_nbx(endpoint_, &params);
  if (UCS_PTR_IS_PTR(request)) closing_ = request;
}

bool Endpoint::is_cut() noexcept {
  if (!cut_) return false;
  if (closing_ != nullptr && ucp_request_check_status(closing_) != UCS_INPROGRESS) {
    ucp_request_free(closing_);
    closing_ = nullptr;
  }
  return closing_ == nullptr;
}

}  // namespace weft::ucx
