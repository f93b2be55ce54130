#pragma once
// A rank that sends numbered messages to all others, checks every byte of what they send, and knows when it
// has everything: the body of the transfer tests, for any transport.
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "weft/transport/transport.h"

namespace weft::test {

/// Ends a test's body with a message, also in threads and child processes where EXPECT does not reach.
void require(bool condition, const std::string& what);

/// The payload of message `number` from rank `from`: repeats after so odd a length that a chunk in the wrong
/// place shows. Made of memcpy and memcmp, which sanitizers do not slow down.
void fill_payload(std::span<std::byte> payload, std::uint32_t from, std::uint32_t number);
bool is_payload(std::span<const std::byte> payload, std::uint32_t from, std::uint32_t number);

/// Sends `sizes[k]` bytes as message k to every other rank.
class Conversation final : public MessageSink {
 public:
  Conversation(Transport& transport, std::vector<std::size_t> sizes);

  void start();
  /// Everything has been sent and as much has come from every other rank.
  [[nodiscard]] bool done() const;
  /// Starts and drives the transport until done, sleeping when there is nothing to do; then closes it.
  /// Throws when that takes longer than a minute.
  void run();

  [[nodiscard]] const std::vector<std::uint32_t>& order_from(std::uint32_t peer) { return order_[peer]; }

  Payload accept(std::uint32_t from, const MessageHeader& header) override;
  void delivered(std::uint32_t from, const MessageHeader& header, Payload payload) override;
  void sent(SendToken token) override;
  void peer_failed(std::uint32_t peer, const std::string& reason) override;

 private:
  Transport& transport_;
  std::vector<std::size_t> sizes_;
  std::vector<std::vector<std::byte>> outgoing_;
  std::set<SendToken> unsent_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::byte>> landing_;
  std::map<std::uint32_t, std::vector<std::uint32_t>> order_;
  std::size_t received_ = 0;
  Attachment attachment_;
};

/// A header for `bytes` bytes of payload with number `number`.
MessageHeader numbered(std::uint32_t number, std::size_t bytes);

/// Progresses until `done`, sleeping when there is nothing to do; throws, naming `what`, after a minute.
template <class Done>
void drive(Transport& transport, const std::string& what, Done done);

/// Waits a short while for descriptor() unless there is work.
void sleep_until_work(Transport& transport);

template <class Done>
void drive(Transport& transport, const std::string& what, Done done) {
  const Nanoseconds deadline = now_ns() + 60'000'000'000;
  while (!done()) {
    require(now_ns() < deadline, "waited a minute for " + what);
    if (!transport.progress()) sleep_until_work(transport);
  }
}

}  // namespace weft::test
