#pragma once
// What a rank has received and what it may send. Messages are filed under (phase, step, kind, stage,
// micro-batch, tensor), so the order of arrival never matters; every edge and direction has a fixed number of
// receive buffers, and a sender holds as many credits.
#include <array>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/actors/event_loop.h"
#include "weft/scheduling/rank_view.h"
#include "weft/scheduling/simulation/trace.h"
#include "weft/tensor/arena.h"
#include "weft/tensor/tensor.h"
#include "weft/transport/transport.h"

namespace weft {

/// One border of the pipeline as one of its two stages sees it, in one direction.
struct EdgePlan {
  MessageKind kind = MessageKind::activation;  ///< activation (towards higher stages) or gradient
  std::uint16_t source_stage = 0;
  std::uint16_t target_stage = 0;
  std::uint32_t source_rank = 0;
  std::uint32_t target_rank = 0;
  std::uint32_t credits = 1;  ///< receive buffers for each tensor of the border
  ShapeList tensors;          ///< largest shapes
};

/// The memory of all edges that touch one rank.
class Mailbox final : public MessageSink {
 public:
  /// Send buffers for each tensor of an edge to another rank: one is filled while the other leaves.
  static constexpr std::uint32_t send_buffers = 2;

  /// `edges`: those that begin or end at this rank. `arena` has arena_bytes(...) free. `state` learns of
  /// arrivals. Attaches itself to the transport.
  Mailbox(std::uint32_t rank, std::span<const EdgePlan> edges, std::uint32_t microbatches, Arena& arena,
          EventLoop& loop, Transport& transport, RankState& state);
  ~Mailbox() override;

  /// Bytes of message buffers that `rank` needs for these edges.
  [[nodiscard]] static std::size_t arena_bytes(std::uint32_t rank, std::span<const EdgePlan> edges);

  /// Files under this step from now on; messages of it that came early are filed now.
  void begin_step(std::uint64_t step, Phase phase);

  /// True when a message of `kind` for (stage, micro-batch) has arrived with all its tensors.
  [[nodiscard]] bool arrived(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch) const;
  /// Takes it; must have arrived.
  [[nodiscard]] TensorList take(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch);

  /// Whether reserve() of the same would not wait.
  [[nodiscard]] bool has_room(MessageKind kind, std::uint16_t stage) noexcept;
  /// Buffers for what `stage` will send as `kind`, with a credit each, appended to `buffers` in tensor order.
  /// Waits for buffers or credits; with the plan's credits it waits for nothing but its own earlier sends.
  Task<void> reserve(MessageKind kind, std::uint16_t stage, std::vector<Buffer>& buffers);
  /// Sends tensors in buffers of reserve(): hands them over on the same rank, or gives them to the transport.
  void post(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch, TensorList tensors);

  /// Waits until anything arrives or a send completes, or until `deadline`.
  struct Change {
    explicit Change(EventLoop& event_loop, Nanoseconds until) noexcept : loop(event_loop), deadline(until) {}
    bool await_ready() const noexcept { return false; }
    void await_suspend(std::coroutine_handle<> waiting) noexcept { loop.wait(waiting, deadline); }
    void await_resume() const noexcept {}
    EventLoop& loop;
    Nanoseconds deadline;
  };
  [[nodiscard]] Change next(Nanoseconds deadline) noexcept { return Change(loop_, deadline); }

  /// Side traffic between steps: a payload from memory that stays valid until `sent_all()`.
  void send_direct(std::uint32_t to, MessageHeader header, const std::byte* payload);
  /// Where the next message of `kind` (tied_gradient, tied_sum) for `stage`, tensor number `tensor`, shall
  /// go; returns when it has come.
  Task<void> receive_direct(MessageKind kind, std::uint16_t stage, std::uint8_t tensor);
  void expect_direct(MessageKind kind, std::uint16_t stage, std::uint8_t tensor, std::byte* into,
                     std::size_t bytes);
  /// Part `tag` of a collective of group `group` from rank `from`; waits for it. The bytes are appended to
  /// `into`.
  Task<void> receive_collective(std::uint16_t group, std::uint32_t from, std::uint32_t tag,
                                std::vector<std::byte>& into);
  /// Waits until every send_direct has left.
  Task<void> sent_all();

  /// Bytes of activations and gradients given to the transport since begin_step().
  [[nodiscard]] std::uint64_t sent_bytes() const noexcept { return sent_bytes_; }
  /// Most message buffers in use at once, in bytes, over all receive pools (for the report).
  [[nodiscard]] std::size_t peak_receive_bytes() const noexcept;
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
  struct Edge;
  struct Incoming {
    std::array<Tensor, TensorList::capacity> tensors;
    std::uint8_t count = 0;
  };
  struct Landing {  // accepted, not yet delivered; or delivered early
    MessageHeader header;
    std::uint32_t from = 0;
    Buffer buffer;
    bool complete = false;
  };
  struct Direct {
    MessageKind kind;
    std::uint16_t stage;
    std::uint8_t tensor;
    std::byte* into;
    std::size_t bytes;
    std::uint32_t arrived = 0;
  };
  struct Part {
    std::uint16_t group = 0;
    std::uint32_t from = 0;
    std::uint32_t tag = 0;
    std::vector<std::byte> bytes;
    bool complete = false;
  };

  Edge* incoming_edge(MessageKind kind, std::uint16_t target_stage) noexcept;
  Edge* outgoing_edge(MessageKind kind, std::uint16_t source_stage) noexcept;
  Incoming& incoming(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch);
  void file(const MessageHeader& header, Buffer buffer);
  static void return_credit(void* owner, std::uint32_t edge_and_tensor);

  std::uint32_t rank_;
  std::uint32_t microbatches_;
  std::uint64_t step_ = 0;
  Phase phase_ = Phase::train;
  EventLoop& loop_;
  Transport& transport_;
  RankState& state_;
  std::vector<std::unique_ptr<Edge>> edges_;
  std::vector<std::uint16_t> local_stage_;  // global stage -> position among this rank's
  std::vector<Incoming> activations_;
  std::vector<Incoming> gradients_;
  std::vector<Landing> landings_;
  std::vector<Tensor> outgoing_;  // by token - 1: sent, buffer not yet free
  std::vector<std::uint32_t> free_tokens_;
  std::vector<Direct> directs_;
  std::vector<Part> parts_;
  std::uint32_t direct_sends_ = 0;
  std::uint64_t sent_bytes_ = 0;
  std::vector<TraceEvent>* events_ = nullptr;
  Attachment attachment_;
};

}  // namespace weft
