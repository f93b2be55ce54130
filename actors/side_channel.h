#pragma once
// Traffic beside activations and gradients: gradients of tied weights, parts of collectives. It needs no
// credits: who sends is waited for.
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "weft/actors/event_loop.h"
#include "weft/actors/task.h"
#include "weft/transport/transport.h"

namespace weft {

class SideChannel {
 private:
  struct Expected;

 public:
  /// Tokens of this channel's sends begin here.
  static constexpr SendToken first_token = SendToken{1} << 32;
  /// The largest part of a collective.
  static constexpr std::size_t largest_part = 64u << 20;

  SideChannel(EventLoop& loop, Transport& transport);
  SideChannel(const SideChannel&) = delete;
  SideChannel& operator=(const SideChannel&) = delete;

  /// Memory into which the messages of one tie go, for as long as this lives; one that comes later is an
  /// error. It may outlive the channel, and the memory outlives it.
  class [[nodiscard]] Expectation {
   public:
    Expectation() = default;
    Expectation(Expectation&&) noexcept = default;
    Expectation& operator=(Expectation&& other) noexcept;
    ~Expectation() { end(); }

   private:
    friend class SideChannel;
    explicit Expectation(std::shared_ptr<Expected> expected) noexcept : expected_(std::move(expected)) {}
    void end() noexcept;
    std::shared_ptr<Expected> expected_;
  };

  /// Messages of `kind` (tied_gradient or tied_sum) for tie number `tie` come from rank `from`, each of
  /// `bytes` bytes. Throws Error when they are expected already.
  Expectation expect(MessageKind kind, std::uint32_t tie, std::uint32_t from, Payload into,
                     std::size_t bytes);
  /// Returns when the next of them lies there.
  Task<void> receive(const Expectation& expectation);
  /// Sends `count` floats for tie number `tie`, from memory that stays as it is until sent_all() has
  /// returned, and that the rank has as long as its mailbox.
  void send_tied(std::uint32_t to, MessageKind kind, std::uint32_t tie, ConstPayload floats,
                 std::size_t count);
  /// Returns when everything of send_tied() has left.
  Task<void> sent_all();

  /// Sends part `tag` of a collective of `group`, at most largest_part bytes (else throws TransportError).
  /// They are copied: the caller may change or free them at once.
  void send_part(std::uint32_t to, std::uint16_t group, std::uint32_t tag, std::span<const std::byte> bytes);
  /// Waits for part `tag` of a collective of `group` from rank `from` and appends it to `into`.
  Task<void> receive_part(std::uint16_t group, std::uint32_t from, std::uint32_t tag,
                          std::vector<std::byte>& into);

  // What arrives: kinds tied_gradient, tied_sum and collective.
  /// Throws TransportError for what nobody expects.
  [[nodiscard]] Payload accept(std::uint32_t from, const MessageHeader& header);
  void delivered(std::uint32_t from, const MessageHeader& header, Payload payload);
  /// `token` is at least first_token.
  void sent(SendToken token) noexcept;

 private:
  struct Part {
    std::uint16_t group = 0;
    std::uint32_t tag = 0;
    bool used = false;
    bool complete = false;
    std::vector<std::byte> bytes;  // its memory serves later parts
  };

  std::vector<std::shared_ptr<Expected>>& ties(MessageKind kind) noexcept {
    return ties_[kind == MessageKind::tied_gradient ? 0 : 1];
  }

  EventLoop& loop_;
  Transport& transport_;
  std::vector<std::shared_ptr<Expected>> ties_[2];  // [tied_gradient, tied_sum][tie]
  std::vector<std::vector<Part>> parts_;            // [sender]
  std::deque<std::vector<std::byte>> copies_;       // by token - first_token - 1
  std::vector<std::uint32_t> free_copies_;
  std::uint32_t tied_sends_ = 0;
};

}  // namespace weft
