#pragma once
// What a rank sends to others: the buffers it writes into, and the credits without which nothing leaves.
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/actors/edge_plan.h"
#include "weft/tensor/arena.h"
#include "weft/tensor/tensor.h"
#include "weft/transport/transport.h"

namespace weft {

/// The send buffers of all edges from one rank to others.
class Outbox {
 public:
  /// For each tensor of an edge: one is filled while the other leaves.
  static constexpr std::uint32_t send_buffers = 2;
  /// Token of a credit: nobody waits for it.
  static constexpr SendToken credit_token = 0;

  /// `edges`: those that begin at `rank` and end elsewhere are taken. `arena` has arena_bytes(...) free.
  Outbox(std::uint32_t rank, std::span<const EdgePlan> edges, Arena& arena, Transport& transport);
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  [[nodiscard]] static std::size_t arena_bytes(std::uint32_t rank, std::span<const EdgePlan> edges);

  void begin_step(std::uint64_t step, Phase phase) noexcept;

  /// Whether there is a buffer and a credit for each tensor that `stage` sends as `kind`.
  [[nodiscard]] bool has_room(MessageKind kind, std::uint16_t stage) const noexcept;
  /// Takes them, where has_room(); the buffers are appended to `buffers` in tensor order.
  void reserve(MessageKind kind, std::uint16_t stage, std::vector<Buffer>& buffers);
  /// The pool behind reserve().
  [[nodiscard]] const BlockPool& pool(MessageKind kind, std::uint16_t stage, std::size_t tensor) const;
  /// Sends a tensor in a buffer of reserve(), which is free again when sent() has been called with its token.
  void send(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch, std::size_t number,
            Tensor tensor);
  void sent(SendToken token) noexcept;

  /// Tells the rank where `edge` begins that a receive buffer is free again.
  void send_credit(const EdgePlan& edge, std::uint8_t tensor);
  /// Rank `from` returns a credit. Throws TransportError for one that it cannot have.
  void take_credit(std::uint32_t from, const MessageHeader& header);

  /// Given to the transport since begin_step(), without credits.
  [[nodiscard]] std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }

 private:
  struct Border {
    EdgePlan plan;
    std::vector<std::unique_ptr<BlockPool>> pools;  // [tensor]
    std::vector<std::uint32_t> credits;             // [tensor]
  };

  std::uint64_t step_ = 0;
  Phase phase_ = Phase::train;
  Transport& transport_;
  std::vector<std::unique_ptr<Border>> borders_;
  EdgeTable<Border> by_source_;
  std::vector<Tensor> leaving_;             // by token - 1: sent, buffer not yet free
  std::vector<std::uint32_t> free_tokens_;  // as many as there are buffers
  std::uint64_t sent_bytes_ = 0;
};

}  // namespace weft
