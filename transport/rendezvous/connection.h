#pragma once
// One control connection once both sides have proved themselves: sealed frames in both directions. Internal
// to this folder, since it includes Asio. Everything runs on the thread of the socket's io_context.
#include <asio/ip/tcp.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "weft/transport/rendezvous/wire.h"

namespace weft::control {

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  /// Gets every frame that passes the checks. A TransportError from it closes the connection.
  using FrameHandler = std::function<void(Type, Reader)>;
  /// Called once, when the connection ends for whatever reason but `close`.
  using EndHandler = std::function<void(const std::string& why)>;

  explicit Connection(asio::ip::tcp::socket socket) : socket_(std::move(socket)) {}

  [[nodiscard]] asio::ip::tcp::socket& socket() noexcept { return socket_; }

  /// From here on frames are read under `incoming` and sent under `outgoing`.
  void start(Channel incoming, Channel outgoing, FrameHandler on_frame, EndHandler on_end);
  /// Sends a frame after those before it.
  void send(Type type, std::span<const std::byte> payload);
  /// Closes when everything sent so far has left.
  void close_after_sending();
  /// Closes at once; no handler is called any more.
  void close();

 private:
  void read_header();
  void read_rest(std::size_t length);
  void write_next();
  void end(const std::string& why);

  asio::ip::tcp::socket socket_;
  Channel incoming_;
  Channel outgoing_;
  FrameHandler on_frame_;
  EndHandler on_end_;
  Bytes frame_;
  std::deque<Bytes> to_send_;
  bool close_when_sent_ = false;
};

}  // namespace weft::control
