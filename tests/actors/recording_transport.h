#pragma once
// A transport that keeps what it is given: tests say what arrives by calling the sink.
#include <vector>

#include "weft/base/error.h"
#include "weft/transport/transport.h"

namespace weft::test {

class RecordingTransport final : public Transport {
 public:
  struct Sent {
    std::uint32_t to;
    MessageHeader header;
    ConstPayload payload;
    SendToken token;
  };

  explicit RecordingTransport(std::uint32_t rank = 0, std::uint32_t world_size = 2)
      : rank_(rank), world_size_(world_size) {
    sent.reserve(1000);
  }
  std::uint32_t rank() const noexcept override { return rank_; }
  std::uint32_t world_size() const noexcept override { return world_size_; }
  Capabilities capabilities() const override { return {"recording", false}; }
  void send(std::uint32_t to, const MessageHeader& header, ConstPayload payload, SendToken token) override {
    if (peers_gone) throw PeerFailure(to, "gone");
    if (refuse) throw TransportError("refused");
    sent.push_back({to, header, payload, token});
  }
  bool progress() override { return false; }
  int descriptor() const noexcept override { return -1; }
  bool arm() override { return false; }
  void wake() noexcept override {}
  void close(Nanoseconds) override {}

  std::vector<Sent> sent;
  bool peers_gone = false;
  bool refuse = false;

 protected:
  bool let_go() noexcept override { return true; }

 private:
  std::uint32_t rank_;
  std::uint32_t world_size_;
};

}  // namespace weft::test
