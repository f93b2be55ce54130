#include "weft/launch/hosts/free_port.h"

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>

#include "weft/base/error.h"

namespace weft {

std::uint16_t find_free_port() {
  using asio::ip::tcp;
  try {
    asio::io_context io;
    const tcp::socket probe(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
    return probe.local_endpoint().port();
  } catch (const asio::system_error& e) {
    throw Error(std::string("no free port on the loopback device: ") + e.what());
  }
}

}  // namespace weft
