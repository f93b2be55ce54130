#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "weft/model/layers/decoder_layer.h"
#include "weft/model/layers/language_head.h"
#include "weft/model/llama/llama_stage.h"
#include "weft/model/ops/ops.h"

namespace weft {

/// LlamaStage with parameters, activations and messages of type T, float or BFloat16.
template <class T>
class TypedLlamaStage final : public LlamaStage {
 public:
  TypedLlamaStage(const LlamaConfig& config, std::uint32_t first_layer, std::uint32_t layers);

  StagePlan plan(const ShapeList& largest_input) override;
  void allocate(Arena& state, Queue& queue) override;
  std::span<Parameter> parameters() override { return parameters_; }
  void parameters_changed() override;
  Task<StageOutput> forward(MicrobatchContext& context) override;
  Task<StageOutput> backward_input(MicrobatchContext& context, TensorList output_gradient) override;
  Task<void> backward_weight(MicrobatchContext& context) override;
  void observe_logits(LogitsObserver observer) override { observer_ = std::move(observer); }

 private:
  using Layer = DecoderLayer<T>;
  /// The size of one micro-batch.
  struct Size {
    std::uint32_t batch = 0;
    std::uint32_t sequence = 0;
    [[nodiscard]] std::size_t rows() const noexcept { return std::size_t{batch} * sequence; }
  };
  /// An activation slot.
  struct Kept {
    std::int32_t* tokens = nullptr;  // first stage: [rows]
    std::vector<T*> inputs;          // [rows, hidden] of each layer; the first is null where it is received
    std::vector<typename Layer::Kept> layers;  // one for all of them in the workspace if recomputed
    T* head_input = nullptr;                   // last stage: [rows, hidden]
    typename LanguageHead<T>::Kept head{};
  };
  /// A weight-work slot.
  struct Work {
    std::int32_t* tokens = nullptr;    // first stage: [rows]
    T* embedded_gradient = nullptr;    // first stage: [rows, hidden]
    std::vector<T*> output_gradients;  // [rows, hidden] of each layer
    std::vector<typename Layer::Work> layers;
    typename LanguageHead<T>::Work head{};
  };

  void lay_out_state(StateCarver& carve);
  void lay_out_kept(Carver& carve, Size size);
  void lay_out_work(Carver& carve, Size size);
  /// Bytes at the front of the workspace that hold one layer's Kept while it is recomputed.
  [[nodiscard]] std::size_t recomputed_bytes() const;
  [[nodiscard]] std::size_t op_workspace() const;
  void make_parameters();

  /// What comes before the op's own workspace: the recomputed layer's Kept, and the last stage's targets.
  [[nodiscard]] std::size_t target_bytes() const;
  [[nodiscard]] std::span<std::byte> op_workspace_of(const MicrobatchContext& context) const {
    return context.workspace.subspan(recomputed_bytes() + target_bytes());
  }
  [[nodiscard]] RopeTable rope() const noexcept { return {.cosine = cosine_, .sine = sine_}; }
  [[nodiscard]] Shape border(Size size) const { return {size.batch, size.sequence, config_.hidden_size}; }
  /// The size of a micro-batch from what arrived; checked, and noted for I and W.
  [[nodiscard]] Size note_size(MicrobatchContext& context) const;
  [[nodiscard]] static Size noted_size(const MicrobatchContext& context) noexcept {
    return {.batch = context.note[0], .sequence = context.note[1]};
  }
  /// Checked tokens or targets, [rows], on the host.
  [[nodiscard]] std::span<const std::int32_t> tokens_of(const TensorList* list, Size size,
                                                        const char* what) const;
  /// The output or input gradient in the border's shape: memory of the message.
  [[nodiscard]] T* border_tensor(MicrobatchContext& context, Size size, StageOutput& output) const;
  [[nodiscard]] typename Layer::Kept kept_of(std::size_t layer, std::span<std::byte> workspace,
                                             Size size) const;

  LlamaConfig config_;
  std::unique_ptr<OpSizes<T>> sizes_;
  std::unique_ptr<Ops<T>> ops_;  // from allocate on
  bool is_first_;
  bool is_last_;
  Size largest_;
  std::vector<Layer> layers_;
  Trained<T> embedding_;  // first stage: [vocabulary, hidden]
  std::optional<LanguageHead<T>> head_;
  float* cosine_ = nullptr;
  float* sine_ = nullptr;
  std::vector<Parameter> parameters_;
  Kept kept_;  // pointers into the current op's slots; members, so that an op allocates nothing
  Work work_;
  LogitsObserver observer_;
};

extern template class TypedLlamaStage<float>;
extern template class TypedLlamaStage<BFloat16>;

}  // namespace weft
