#include "weft/transport/rendezvous/session.h"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <cstring>

#include "weft/base/error.h"

namespace weft::control {

Session::Session(asio::ip::tcp::socket socket, const RunToken& token, std::uint32_t world_size,
                 const Handlers& handlers)
    : connection_(std::make_shared<Connection>(std::move(socket))),
      deadline_(connection_->socket().get_executor()),
      token_(token),
      world_size_(world_size),
      handlers_(handlers) {}

void Session::start(std::chrono::milliseconds limit) {
  deadline_.expires_after(limit);
  deadline_.async_wait([self = shared_from_this()](asio::error_code cancelled) {
    if (!cancelled && !self->introduced_) self->give_up("no handshake in time");
  });
  asio::async_read(connection_->socket(), asio::buffer(handshake_.data(), greeting_bytes),
                   [self = shared_from_this()](asio::error_code error, std::size_t) {
                     if (error) return self->give_up(error.message());
                     self->answer_greeting();
                   });
}

void Session::answer_greeting() {
  // Anything that begins like weft gets an answer, so that another version can say what is wrong.
  if (std::memcmp(handshake_.data(), magic.data(), 6) != 0) return give_up("no weft rank");
  std::copy_n(handshake_.begin() + magic.size(), theirs_.size(), theirs_.begin());
  const Digest proof = prove(token_, "launcher", theirs_, nonce_);
  std::copy_n(reinterpret_cast<const std::byte*>(magic.data()), magic.size(), handshake_.begin());
  std::copy(nonce_.begin(), nonce_.end(), handshake_.begin() + magic.size());
  std::copy(proof.begin(), proof.end(), handshake_.begin() + magic.size() + nonce_.size());
  asio::async_write(connection_->socket(), asio::buffer(handshake_),
                    [self = shared_from_this()](asio::error_code failed, std::size_t) {
                      if (failed) return self->give_up(failed.message());
                      asio::async_read(self->connection_->socket(),
                                       asio::buffer(self->handshake_.data(), proof_bytes),
                                       [self](asio::error_code error, std::size_t) {
                                         if (error) return self->give_up(error.message());
                                         self->check_proof();
                                       });
                    });
}

void Session::check_proof() {
  if (!same(prove(token_, "rank", theirs_, nonce_), std::span(handshake_).first(proof_bytes))) {
    return give_up("it does not know the token");
  }
  proved_ = true;
  connection_->start(
      Channel(token_, "from rank", theirs_, nonce_, world_size_),
      Channel(token_, "from launcher", theirs_, nonce_, world_size_),
      [weak = weak_from_this()](Type type, Reader payload) {
        if (const auto self = weak.lock()) self->take(type, payload);
      },
      [weak = weak_from_this()](const std::string& why) {
        if (const auto self = weak.lock()) self->give_up(why);
      });
}

void Session::take(Type type, Reader payload) {
  if (rank_) return handlers_.frame(*rank_, type, payload);
  if (type != Type::hello || introduced_) throw TransportError("a rank must introduce itself first");
  introduced_ = true;
  Introduction introduction;
  introduction.rank = payload.u32();
  introduction.world_size = payload.u32();
  for (std::uint32_t left = payload.u32(); left > 0; --left) {
    std::string name = payload.text();
    introduction.facts.push_back({std::move(name), payload.text()});
  }
  payload.end();
  deadline_.cancel();
  handlers_.introduced(shared_from_this(), std::move(introduction));
}

void Session::give_up(const std::string& why) {
  close();
  handlers_.ended(rank_, why);
}

void Session::close() {
  deadline_.cancel();
  connection_->close();
}

}  // namespace weft::control
