#pragma once
// A Llama cut into pipeline stages. Tensor borders carry [batch, sequence, hidden] in the model's dtype; the
// first stage takes tokens int32 [batch, sequence], the last one targets of the same shape.
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "weft/actors/stage.h"
#include "weft/model/llama_config.h"

namespace weft {

/// A contiguous range of a Llama's layers, with the embedding if it is the first and final norm, head and
/// loss if it is the last. Parameters have Hugging Face's names. The loss is the micro-batch's mean
/// per token; its gradient is scaled by 1 / `context.microbatches`.
class LlamaStage : public Stage {
 public:
  /// Called in the last stage's forward with logits[batch * sequence, vocabulary], for inspection and tests.
  using LogitsObserver = std::function<void(std::span<const float> logits)>;
  virtual void observe_logits(LogitsObserver observer) = 0;
};

/// The stage of layers [first_layer, first_layer + layers). Throws Error when the configuration is wrong or
/// the range is empty or leaves the model.
[[nodiscard]] std::unique_ptr<LlamaStage> make_llama_stage(const LlamaConfig& config,
                                                           std::uint32_t first_layer, std::uint32_t layers);

/// Makes stages by their number: stage s has layers_per_stage[s] layers. Throws Error when the numbers do not
/// add up to the model's layers.
[[nodiscard]] StageFactory make_llama_stage_factory(const LlamaConfig& config,
                                                    std::vector<std::uint32_t> layers_per_stage);

}  // namespace weft
