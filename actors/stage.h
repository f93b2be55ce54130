#pragma once
// What a user implements to put anything into a pipeline: a Stage.
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "weft/actors/completion.h"
#include "weft/actors/task.h"
#include "weft/base/phase.h"
#include "weft/tensor/arena.h"
#include "weft/tensor/queue.h"
#include "weft/tensor/tensor.h"

namespace weft {

/// One trainable tensor of a stage. The memory is the stage's, taken in Stage::allocate.
struct Parameter {
  std::string name;              ///< unique in the model, the same at every partition
  DType dtype = DType::float32;  ///< of `value`
  Shape shape;
  std::byte* value = nullptr;  ///< what forward and backward use
  float* gradient = nullptr;   ///< the sum over micro-batches, float32
  float* master = nullptr;  ///< float32 copy that the optimizer updates when `value` is bfloat16, else null
  /// Name of the parameter (of an earlier stage or of this one) of which this is a further use; empty for
  /// none. All hold their own value and gradient; the gradients are summed, first use + second use + ... in
  /// the order of the model, before the update, and all are updated alike.
  std::string tied_to;
  bool weight_decay = true;  ///< the same for all uses of a tied weight
  /// Work on the device where the memory lies; null for memory of the host. The rank sets it after
  /// Stage::allocate. What reads or writes values from outside goes through HostValues.
  Queue* queue = nullptr;

  [[nodiscard]] std::span<std::byte> value_bytes() const {
    return {value, shape.elements() * dtype_size(dtype)};
  }
  /// Empty without a master.
  [[nodiscard]] std::span<std::byte> master_bytes() const {
    return {reinterpret_cast<std::byte*>(master), master == nullptr ? 0 : shape.elements() * sizeof(float)};
  }

  /// The name under which the weight is stored, and by which whatever is said of it goes: that of its first
  /// use.
  [[nodiscard]] const std::string& stored_name() const noexcept { return tied_to.empty() ? name : tied_to; }
};

/// What a stage needs, known before the first step. Sizes in bytes; each a pool or arena is made of.
struct StagePlan {
  ShapeList outputs;                ///< largest shapes of what forward returns; empty at the last stage
  std::size_t activation_slot = 0;  ///< kept from F to I for one micro-batch, received input not counted
  std::size_t weight_slot = 0;      ///< kept from I to W for one micro-batch
  std::size_t workspace = 0;        ///< scratch of one op, shared by all ops of a rank (but see ops_beside)
  std::size_t state = 0;            ///< parameters, gradients, packed weights: taken once by Stage::allocate;
                                    ///< the sum of aligned() over its takes, each begins on a border
  bool splits_backward = true;      ///< false: I and W cannot be run apart; orders that need it are refused
  bool keeps_input_until_weight =
      false;  ///< the received input is read by W as well (else it is given back after I)
  /// How many ops of this stage may wait for completions of their own at once while the rank runs other ops;
  /// each has a workspace of its own, and its slots and message buffers from its start (a border to another
  /// rank has two to send from, Outbox::send_buffers). 0: an op that waits keeps its rank waiting.
  std::uint32_t ops_beside = 0;
};

/// What a stage is given for each op: which micro-batch, and the memory that belongs to it.
class MicrobatchContext {
 public:
  std::uint64_t step = 0;  ///< the first is 1
  std::uint16_t stage = 0;
  std::uint32_t microbatch = 0;
  std::uint32_t microbatches = 1;  ///< m: the last stage scales its loss gradient by 1/m
  Phase phase = Phase::train;

  std::span<std::byte> activation;  ///< the slot of StagePlan::activation_slot bytes, from F to I
  std::span<std::byte> weight;      ///< the slot of StagePlan::weight_slot bytes, from I to W (empty in F)
  std::span<std::byte> workspace;   ///< of this op alone
  TensorList input;                 ///< what forward was given, kept until I (or W, by the plan) by the actor
  const TensorList* inputs = nullptr;   ///< first stage: this micro-batch's data
  const TensorList* targets = nullptr;  ///< last stage: this micro-batch's targets
  double* loss = nullptr;               ///< last stage: where forward leaves the loss, on the host; 0 before
  std::uint32_t threads = 1;            ///< compute threads that the op may use, the rank's own among them
  Queue* queue = nullptr;  ///< the rank's work on its device, where slots, workspace and tensors lie
  /// A stage's own words on the host, from F to W: sizes, for example. 0 before the first F.
  std::array<std::uint32_t, 4> note{};

  /// Memory for output or input-gradient number `i` of this op, of at most the declared size; once in an op.
  /// Throws Error otherwise.
  [[nodiscard]] Tensor allocate(std::size_t i, DType dtype, const Shape& shape) {
    if (i >= outputs_.size())
      throw Error("stage " + std::to_string(stage) + " has no output number " + std::to_string(i));
    if (!outputs_[i])
      throw Error("stage " + std::to_string(stage) + " allocates output number " + std::to_string(i) +
                  " twice");
    return Tensor(std::move(outputs_[i]), dtype, shape);
  }
  /// A new completion, for an op that waits for something of its own: `co_await` it inside a Task of the op.
  /// The slots stay the op's meanwhile, the workspace too; other ops of the rank run only where
  /// StagePlan::ops_beside says so. Throws Error outside a pipeline.
  [[nodiscard]] Completion completion() const {
    if (loop_ == nullptr) throw Error("only the ops of a pipeline have completions");
    return Completion(*loop_);
  }
  /// Progresses transfers; long ops call it at least every 200 us. Never resumes a coroutine.
  void poll() const {
    if (poll_) poll_(poll_owner_);
  }
  /// The hook behind poll(), for code that cannot see this class.
  [[nodiscard]] std::pair<void (*)(void*), void*> poll_hook() const noexcept { return {poll_, poll_owner_}; }

 private:
  friend class StageActor;
  std::vector<Buffer> outputs_;  // blocks reserved by the actor for the op
  void (*poll_)(void*) = nullptr;
  void* poll_owner_ = nullptr;
  EventLoop* loop_ = nullptr;
};

/// What an op returns: tensors for the next (or, from a backward, the previous) stage, in the order of the
/// plan. On CPU they may be read at once. They lie in memory of MicrobatchContext::allocate; a tensor in
/// other memory (the stage's own, or an input that is passed on) is copied into what was reserved for it, so
/// that the stage may use that memory again.
struct StageOutput {
  StageOutput() = default;
  explicit StageOutput(TensorList list) noexcept : tensors(std::move(list)) {}
  TensorList tensors;
};

/// One consecutive part of a model. All calls come from its rank's thread, one at a time; while an op waits
/// for a completion of its own, others of the stage may begin where StagePlan::ops_beside allows it, but
/// never a second W (or B).
///
/// F and I touch no state that outlives them but the micro-batch's slots; W (and B's second half) adds into
/// the gradients, and is called in micro-batch order. Forward leaves what the backward needs in
/// `context.activation`, backward_input leaves what W needs in `context.weight`.
class Stage {
 public:
  virtual ~Stage() = default;
  /// Sizes, from the largest shapes that can arrive (empty at the first stage). Called once, before allocate.
  virtual StagePlan plan(const ShapeList& largest_input) = 0;
  /// Takes the stage's lasting memory (StagePlan::state bytes), which lies on the queue's device, and sets
  /// initial values, a pure function of configuration and seed. The parameters' gradients are taken one after
  /// another, apart from all else: see gradient_range.h. The queue outlives the stage.
  virtual void allocate(Arena& state, Queue& queue) = 0;
  /// For the update, norm, hash and checkpoint; in the order of the model. Stays valid and unchanged after
  /// allocate.
  virtual std::span<Parameter> parameters() = 0;
  /// Called after the optimizer changed (or something loaded) the values: repack weights here.
  virtual void parameters_changed() {}

  /// F. `context.input` holds the received tensors. At the last stage leaves the loss at `context.loss` and
  /// returns no tensors.
  virtual Task<StageOutput> forward(MicrobatchContext& context) = 0;
  /// I. `output_gradient` is empty at the last stage. Returns a gradient for each differentiable input, of
  /// its shape; nothing at the first stage.
  virtual Task<StageOutput> backward_input(MicrobatchContext& context, TensorList output_gradient) = 0;
  /// W.
  virtual Task<void> backward_weight(MicrobatchContext& context) = 0;
};

/// Makes stage number `stage` of `stages`; called on the rank that owns it.
using StageFactory = std::function<std::unique_ptr<Stage>(std::uint16_t stage, std::uint16_t stages)>;

}  // namespace weft
