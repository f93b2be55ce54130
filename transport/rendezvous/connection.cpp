#include "weft/transport/rendezvous/connection.h"

#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include "weft/base/error.h"

namespace weft::control {

void Connection::start(Channel incoming, Channel outgoing, FrameHandler on_frame, EndHandler on_end) {
  incoming_ = std::move(incoming);
  outgoing_ = std::move(outgoing);
  on_frame_ = std::move(on_frame);
  on_end_ = std::move(on_end);
  read_header();
}

void Connection::read_header() {
  frame_.resize(header_bytes);
  asio::async_read(socket_, asio::buffer(frame_),
                   [self = shared_from_this()](asio::error_code error, std::size_t) {
                     if (error) return self->end(error.message());
                     try {
                       self->read_rest(self->incoming_.rest_of(self->frame_));
                     } catch (const TransportError& e) {
                       self->end(e.what());
                     }
                   });
}

void Connection::read_rest(std::size_t length) {
  frame_.resize(header_bytes + length);
  asio::async_read(socket_, asio::buffer(frame_.data() + header_bytes, length),
                   [self = shared_from_this()](asio::error_code error, std::size_t) {
                     if (error) return self->end(error.message());
                     try {
                       const Reader payload(self->incoming_.open(self->frame_));
                       // a copy, since the handler may close the connection and with it drop the handlers
                       const FrameHandler handler = self->on_frame_;
                       if (handler) handler(type_of(self->frame_), payload);
                     } catch (const TransportError& e) {
                       return self->end(e.what());
                     }
                     if (self->socket_.is_open()) self->read_header();
                   });
}

void Connection::send(Type type, std::span<const std::byte> payload) {
  if (!socket_.is_open()) return;
  to_send_.push_back(outgoing_.seal(type, payload));
  if (to_send_.size() == 1) write_next();
}

void Connection::write_next() {
  asio::async_write(socket_, asio::buffer(to_send_.front()),
                    [self = shared_from_this()](asio::error_code error, std::size_t) {
                      if (error) return self->end(error.message());
                      self->to_send_.pop_front();
                      if (!self->to_send_.empty()) return self->write_next();
                      if (self->close_when_sent_) self->close();
                    });
}

void Connection::close_after_sending() {
  if (to_send_.empty()) return close();
  close_when_sent_ = true;
}

void Connection::close() {
  on_frame_ = nullptr;
  on_end_ = nullptr;
  asio::error_code ignored;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
  socket_.close(ignored);
}

void Connection::end(const std::string& why) {
  const EndHandler handler = on_end_;
  close();
  if (handler) handler(why);
}

}  // namespace weft::control
