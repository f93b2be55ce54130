#pragma once
// Trains small Llamas in a pipeline of threads and keeps what tests look at.
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/actors/pipeline.h"
#include "weft/model/llama/llama_stage.h"
#include "weft/model/optimizer/adamw.h"

namespace weft::test {

/// Owns the token memory of one step's micro-batches.
class TokenBatches {
 public:
  /// rows of sequence + 1 tokens; micro-batch j takes rows j * batch ...
  TokenBatches(const std::int32_t* rows, std::uint32_t microbatches, std::uint32_t batch,
               std::uint32_t sequence) {
    const std::size_t size = std::size_t{batch} * sequence;
    inputs_memory_.resize(microbatches * size);
    targets_memory_.resize(microbatches * size);
    for (std::uint32_t row = 0; row < microbatches * batch; ++row) {
      std::copy_n(rows + row * (sequence + 1), sequence, inputs_memory_.data() + row * sequence);
      std::copy_n(rows + row * (sequence + 1) + 1, sequence, targets_memory_.data() + row * sequence);
    }
    for (std::uint32_t m = 0; m < microbatches; ++m) {
      inputs.push_back(list(inputs_memory_.data() + m * size, batch, sequence));
      targets.push_back(list(targets_memory_.data() + m * size, batch, sequence));
    }
  }
  std::vector<TensorList> inputs;
  std::vector<TensorList> targets;

 private:
  static TensorList list(std::int32_t* tokens, std::uint32_t batch, std::uint32_t sequence) {
    const std::size_t bytes = std::size_t{batch} * sequence * sizeof(std::int32_t);
    return TensorList(Tensor(Buffer::borrowed(reinterpret_cast<std::byte*>(tokens), bytes), DType::int32,
                             Shape{batch, sequence}));
  }
  std::vector<std::int32_t> inputs_memory_;
  std::vector<std::int32_t> targets_memory_;
};

/// AdamW that copies the gradients before it uses them up.
class CapturingAdamW final : public Optimizer {
 public:
  CapturingAdamW(AdamWConfig config, std::map<std::string, std::vector<float>>& gradients)
      : inner_(std::move(config)), gradients_(gradients) {}
  std::size_t state_bytes(std::span<Parameter* const> parameters) const override {
    return inner_.state_bytes(parameters);
  }
  void allocate(std::span<Parameter* const> parameters, Arena& state, Queue& queue) override {
    parameters_.assign(parameters.begin(), parameters.end());
    inner_.allocate(parameters, state, queue);
  }
  void update(std::uint64_t step, double scale) override {
    for (const Parameter* p : parameters_)
      gradients_[p->name].assign(p->gradient, p->gradient + p->shape.elements());
    inner_.update(step, scale);
  }
  double learning_rate(std::uint64_t step) const override { return inner_.learning_rate(step); }
  std::vector<OptimizerState> state() override { return inner_.state(); }

 private:
  AdamWOptimizer inner_;
  std::map<std::string, std::vector<float>>& gradients_;
  std::vector<Parameter*> parameters_;
};

/// A Llama in a pipeline of `layers.size()` stages, one a rank.
class LlamaRun {
 public:
  LlamaRun(const LlamaConfig& config, std::vector<std::uint32_t> layers, std::uint32_t microbatches,
           AdamWConfig adamw, double clip, const std::string& schedule = "1f1b")
      : gradients_(layers.size()), stages_(layers.size()) {
    PipelineConfig pipeline;
    pipeline.schedule = schedule;
    pipeline.ranks = static_cast<std::uint32_t>(layers.size());
    pipeline.microbatches = microbatches;
    pipeline.clip_gradient = clip;
    adamw.threads = config.threads;
    const StageFactory factory = make_llama_stage_factory(config, layers);
    pipeline.stages = [this, factory](std::uint16_t stage, std::uint16_t stages) {
      auto made = factory(stage, stages);
      stages_[stage] = static_cast<LlamaStage*>(made.get());
      return made;
    };
    pipeline.optimizer = [this, adamw] {
      const std::size_t slot = next_++ % gradients_.size();
      return std::make_unique<CapturingAdamW>(adamw, gradients_[slot]);
    };
    pipeline_ = std::make_unique<Pipeline>(std::move(pipeline));
  }

  [[nodiscard]] Pipeline& pipeline() { return *pipeline_; }
  [[nodiscard]] LlamaStage& last_stage() { return *stages_.back(); }
  /// The gradients of the last step, a tied weight's sum at both of its places.
  [[nodiscard]] std::map<std::string, std::vector<float>> gradients() const {
    std::map<std::string, std::vector<float>> all;
    for (const auto& some : gradients_) all.insert(some.begin(), some.end());
    return all;
  }
  /// Values (not masters) as they are now.
  [[nodiscard]] std::map<std::string, std::vector<std::byte>> values() {
    std::map<std::string, std::vector<std::byte>> all;
    for (const Parameter* p : pipeline_->parameters())
      all[p->name].assign(p->value, p->value + p->shape.elements() * dtype_size(p->dtype));
    return all;
  }
  void set_values(const std::function<void(const Parameter&)>& set) {
    for (const Parameter* p : pipeline_->parameters()) set(*p);
    for (LlamaStage* stage : stages_) stage->parameters_changed();
  }

 private:
  std::atomic<std::size_t> next_{0};
  std::vector<std::map<std::string, std::vector<float>>> gradients_;  // one a rank
  std::vector<LlamaStage*> stages_;
  std::unique_ptr<Pipeline> pipeline_;
};

/// `layers` shared out to `stages`, the first ones get the rest.
inline std::vector<std::uint32_t> even_cut(std::uint32_t layers, std::uint32_t stages) {
  std::vector<std::uint32_t> cut(stages, layers / stages);
  for (std::uint32_t i = 0; i < layers % stages; ++i) ++cut[i];
  return cut;
}

}  // namespace weft::test
