#pragma once
// The launcher's side of one connection, from a stranger's first byte to a rank's last. Internal to this
// folder.
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "weft/transport/rendezvous/connection.h"
#include "weft/transport/rendezvous/control_client.h"

namespace weft::control {

/// What a rank says about itself when it joins.
struct Introduction {
  std::uint32_t rank = 0;
  std::uint32_t world_size = 0;
  std::vector<CommonFact> facts;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  struct Handlers {
    /// The connection knows the token and has introduced itself.
    std::function<void(const std::shared_ptr<Session>&, Introduction)> introduced;
    /// A frame of a rank whose introduction was accepted; may throw TransportError.
    std::function<void(std::uint32_t rank, Type, Reader)> frame;
    /// The connection has ended, not by `Connection::close`. Rank is empty unless it was accepted.
    std::function<void(std::optional<std::uint32_t> rank, const std::string& why)> ended;
  };

  Session(asio::ip::tcp::socket socket, const RunToken& token, std::uint32_t world_size,
          const Handlers& handlers);

  /// Waits for the handshake, `limit` at most.
  void start(std::chrono::milliseconds limit);
  void accept_as(std::uint32_t rank) { rank_ = rank; }
  [[nodiscard]] bool proved() const noexcept { return proved_; }
  [[nodiscard]] bool introduced() const noexcept { return introduced_; }
  [[nodiscard]] bool open() const { return connection_->socket().is_open(); }
  [[nodiscard]] Connection& connection() noexcept { return *connection_; }
  void close();

 private:
  void answer_greeting();
  void check_proof();
  void take(Type type, Reader payload);
  void give_up(const std::string& why);

  std::shared_ptr<Connection> connection_;
  asio::steady_timer deadline_;
  const RunToken& token_;
  std::uint32_t world_size_;
  const Handlers& handlers_;
  Nonce nonce_ = make_nonce();
  Nonce theirs_{};
  std::array<std::byte, answer_bytes> handshake_{};
  bool proved_ = false;
  bool introduced_ = false;
  std::optional<std::uint32_t> rank_;
};

}  // namespace weft::control
