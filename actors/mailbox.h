#pragma once
// What one rank exchanges with the others: the inbox holds what has arrived, the outbox what leaves, the side
// channel carries what is not part of the ops. This page ties them to the transport and to each other.
#include <cstdint>
#include <span>
#include <vector>

#include "weft/actors/edge_plan.h"
#include "weft/actors/event_loop.h"
#include "weft/actors/inbox.h"
#include "weft/actors/outbox.h"
#include "weft/actors/side_channel.h"
#include "weft/scheduling/rank_view.h"
#include "weft/scheduling/simulation/trace.h"
#include "weft/tensor/arena.h"
#include "weft/tensor/tensor.h"
#include "weft/transport/transport.h"

namespace weft {

/// The messages of one rank. Every edge and direction has a fixed number of receive buffers, and a sender
/// holds as many credits.
class Mailbox final : public MessageSink {
 public:
  /// `edges`: those that begin or end at this rank. `arena` has arena_bytes(...) free. `state` learns of
  /// arrivals. Attaches itself to the transport.
  Mailbox(std::uint32_t rank, std::span<const EdgePlan> edges, std::uint32_t microbatches, Arena& arena,
          EventLoop& loop, Transport& transport, RankState& state);
  ~Mailbox() override;

  /// Bytes of message buffers that `rank` needs for these edges.
  [[nodiscard]] static std::size_t arena_bytes(std::uint32_t rank, std::span<const EdgePlan> edges);

  /// Files and sends under this step from now on.
  void begin_step(std::uint64_t step, Phase phase);

  /// Takes the message of `kind` for (stage, micro-batch), which has arrived with all its tensors.
  [[nodiscard]] TensorList take(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch) {
    return inbox_.take(kind, stage, microbatch);
  }

  /// Whether there is a buffer and a credit for each tensor that `stage` sends as `kind`; with the plan's
  /// credits only its own earlier sends may take them.
  [[nodiscard]] bool has_room(MessageKind kind, std::uint16_t stage) const noexcept;
  /// Takes them, where has_room(): the buffers are appended to `buffers` in tensor order.
  void reserve(MessageKind kind, std::uint16_t stage, std::vector<Buffer>& buffers);
  /// Sends what `stage` returned: hands it over on the same rank, or gives it to the transport. `reserved`:
  /// the buffers of reserve() that the stage has not taken. A tensor in memory of the stage's own is copied
  /// into the buffer reserved for it. Throws Error for tensors that are not what the plan says.
  void post(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch, TensorList tensors,
            std::span<Buffer> reserved);

  /// Waits until anything arrives or a send completes, or until `deadline`.
  [[nodiscard]] EventLoop::Change next(Nanoseconds deadline) noexcept { return loop_.next(deadline); }

  [[nodiscard]] SideChannel& side() noexcept { return side_; }
  /// Bytes of activations and gradients given to the transport since begin_step().
  [[nodiscard]] std::uint64_t sent_bytes() const noexcept { return outbox_.sent_bytes(); }
  [[nodiscard]] EventLoop& loop() noexcept { return loop_; }
  /// From now on arrivals from other ranks are appended to `events` (null: no longer).
  void trace(std::vector<TraceEvent>* events) noexcept { events_ = events; }
  /// The rank ends: the transport is left, and released buffers return no credits.
  void leave() noexcept;

  Payload accept(std::uint32_t from, const MessageHeader& header) override;
  void delivered(std::uint32_t from, const MessageHeader& header, Payload payload) override;
  void sent(SendToken token) override;
  void peer_failed(std::uint32_t peer, const std::string& reason) override;

 private:
  [[nodiscard]] const BlockPool& pool(const EdgePlan& edge, std::size_t tensor) const;
  Tensor checked(const EdgePlan& edge, std::uint32_t microbatch, std::size_t number, Tensor tensor,
                 std::span<Buffer> reserved);
  static void freed(void* mailbox, const EdgePlan& edge, std::uint8_t tensor);
  static void arrived(void* mailbox, const EdgePlan& edge, std::uint32_t microbatch);

  std::uint32_t rank_;
  std::uint64_t step_ = 0;
  Phase phase_ = Phase::train;
  EventLoop& loop_;
  std::vector<EdgePlan> from_here_;
  EdgeTable<const EdgePlan> leaving_;  // by the stage that sends
  Inbox inbox_;
  Outbox outbox_;
  SideChannel side_;
  std::vector<TraceEvent>* events_ = nullptr;
  Attachment attachment_;
};

}  // namespace weft
