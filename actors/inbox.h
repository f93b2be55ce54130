#pragma once
// What a rank has received, or handed over to itself. Tensors are filed under (phase, step, kind, stage,
// micro-batch, number), so the order of arrival never matters.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "weft/actors/edge_plan.h"
#include "weft/scheduling/rank_view.h"
#include "weft/tensor/arena.h"
#include "weft/tensor/tensor.h"
#include "weft/transport/transport.h"

namespace weft {

/// The receive buffers of all edges that end at one rank, as many for each tensor as the edge has credits.
class Inbox {
 public:
  /// Called when a buffer of `edge`, from another rank, is free again: a credit is due.
  using Freed = void (*)(void* owner, const EdgePlan& edge, std::uint8_t tensor);
  /// Called when the last tensor of a message from another rank has been filed.
  using Arrived = void (*)(void* owner, const EdgePlan& edge, std::uint32_t microbatch);

  /// `edges`: those that end at `rank` are taken. `arena` has arena_bytes(...) free. `state` learns of
  /// arrivals.
  Inbox(std::uint32_t rank, std::span<const EdgePlan> edges, std::uint32_t microbatches, Arena& arena,
        RankState& state);
  ~Inbox();
  Inbox(const Inbox&) = delete;
  Inbox& operator=(const Inbox&) = delete;

  [[nodiscard]] static std::size_t arena_bytes(std::uint32_t rank, std::span<const EdgePlan> edges);

  void tell(void* owner, Freed freed, Arrived arrived) noexcept;
  /// From now on nobody hears of buffers that are free again.
  void stop_credits() noexcept;

  /// Files under this step from now on; tensors of it that came early are filed now.
  void begin_step(std::uint64_t step, Phase phase);

  /// Takes the message of `kind` for (stage, micro-batch), which has arrived with all its tensors.
  [[nodiscard]] TensorList take(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch);

  /// A tensor from another rank begins to arrive: where it shall go. Throws TransportError for one that the
  /// plan does not allow.
  [[nodiscard]] Payload accept(std::uint32_t from, const MessageHeader& header);
  /// It lies where accept() said. Throws TransportError for one that came before.
  void delivered(const MessageHeader& header, Payload payload);

  /// Buffers for what this rank will hand over to its own `stage`, appended to `buffers` in tensor order.
  /// Throws ScheduleError when none is free: more micro-batches are in flight than planned.
  void reserve(MessageKind kind, std::uint16_t stage, std::vector<Buffer>& buffers);
  /// The pool behind reserve().
  [[nodiscard]] const BlockPool& pool(MessageKind kind, std::uint16_t stage, std::size_t tensor) const;
  /// Files a tensor in a buffer of reserve().
  void hand_over(MessageKind kind, std::uint16_t stage, std::uint32_t microbatch, std::size_t number,
                 Tensor tensor);

 private:
  struct Incoming {
    std::array<Tensor, TensorList::capacity> tensors;
    std::uint8_t count = 0;
  };
  struct Border {
    Inbox* inbox;
    EdgePlan plan;
    std::vector<std::unique_ptr<BlockPool>> pools;  // [tensor]
    std::vector<Incoming> messages;                 // [micro-batch]
  };
  struct Landing {
    MessageHeader header;
    Buffer buffer;
  };

  static void released(void* border, std::uint32_t tensor);
  void file(const MessageHeader& header, Buffer buffer);
  void mark_arrived(const EdgePlan& edge, std::uint32_t microbatch) noexcept;

  std::uint32_t microbatches_;
  std::uint64_t step_ = 0;
  Phase phase_ = Phase::train;
  RankState& state_;
  std::vector<std::unique_ptr<Border>> borders_;
  EdgeTable<Border> by_target_;
  std::vector<Landing> landing_;  // accepted, not delivered: few at a time
  std::vector<Landing> early_;    // delivered, of a step that has not begun
  void* owner_ = nullptr;
  Freed freed_ = nullptr;
  Arrived arrived_ = nullptr;
};

}  // namespace weft
