#pragma once
// A small model for tests of the actor runtime: dense layers with tanh, mean squared error at the end, a
// split backward. Every sum is one chain.
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include "weft/actors/batch_source.h"
#include "weft/actors/optimizer.h"
#include "weft/actors/stage.h"
#include "weft/base/clock.h"
#include "weft/base/random.h"

namespace weft::toy {

struct ToyOptions {
  std::uint32_t layers = 8;
  std::uint32_t width = 5;
  std::uint32_t rows = 4;     ///< most rows of a micro-batch
  bool extra_tensor = false;  ///< a second, constant int32 tensor crosses every border
  std::uint32_t tied = 0;     ///< so many of the last layers use the weights of the first ones again
  bool tied_twice = false;    ///< and the layer in the middle uses the first one's too
  bool splits_backward = true;
  bool scatters_gradients = false;  ///< values lie between the gradients
  float poison_at = -1;             ///< the last stage's loss is NaN in this micro-batch
  std::uint16_t throw_at = 0xffff;  ///< this stage throws in its second forward
  Nanoseconds longest_delay = 0;    ///< from the second step on every op takes up to so long, at random
};

class ToyStage final : public Stage {
 public:
  ToyStage(std::uint16_t stage, std::uint16_t stages, ToyOptions options)
      : stage_(stage), last_(stage + 1u == stages), options_(options) {
    first_layer_ = options.layers * stage / stages;
    layers_ = options.layers * (stage + 1u) / stages - first_layer_;
    for (std::uint32_t l = first_layer_; l < first_layer_ + layers_; ++l) {
      Parameter weight;
      weight.name = "layer" + std::to_string(l) + ".weight";
      weight.shape = Shape{options.width, options.width};
      if (l >= untied()) weight.tied_to = "layer" + std::to_string(l - untied()) + ".weight";
      if (options.tied_twice && l == options.layers / 2) weight.tied_to = "layer0.weight";
      parameters_.push_back(weight);
    }
  }

  StagePlan plan(const ShapeList&) override {
    const std::size_t values = std::size_t{options_.rows} * options_.width * sizeof(float);
    StagePlan plan;
    if (!last_) {
      plan.outputs.push_back({DType::float32, Shape{options_.rows, options_.width}, true});
      if (options_.extra_tensor) plan.outputs.push_back({DType::int32, Shape{options_.rows}, false});
    }
    plan.activation_slot = layers_ * values;  // the output of every tanh
    plan.weight_slot = 2 * layers_ * values;  // inputs of layers and gradients before tanh
    plan.workspace = values;
    plan.state = layers_ * 2 * aligned(matrix_bytes());
    plan.splits_backward = options_.splits_backward;
    return plan;
  }
  void allocate(Arena& state, Queue&) override {
    for (std::uint32_t l = 0; l < layers_; ++l) {
      Parameter& p = parameters_[l];
      p.value = state.take(matrix_bytes());
      if (options_.scatters_gradients) p.gradient = reinterpret_cast<float*>(state.take(matrix_bytes()));
      const std::uint32_t layer = first_layer_ + l;
      std::uint32_t seed = layer < untied() ? layer : layer - untied();
      if (p.tied_to == "layer0.weight") seed = 0;
      for (std::uint32_t i = 0; i < options_.width * options_.width; ++i)
        weight(l)[i] = 0.5f * std::sin(1.0f + static_cast<float>(i) * 0.7f + static_cast<float>(seed) * 1.3f);
    }
    if (options_.scatters_gradients) return;
    for (Parameter& p : parameters_) p.gradient = reinterpret_cast<float*>(state.take(matrix_bytes()));
  }
  std::span<Parameter> parameters() override { return parameters_; }

  Task<StageOutput> forward(MicrobatchContext& context) override {
    if (stage_ == options_.throw_at && context.microbatch == 1) throw Error("the toy breaks on purpose");
    linger(context, 0);
    const Tensor& input = stage_ == 0 ? (*context.inputs)[0] : context.input[0];
    const std::uint32_t rows = input.shape()[0];
    StageOutput result;
    if (!last_) result.tensors.push_back(context.allocate(0, DType::float32, input.shape()));
    const float* x = input.as<float>();
    auto* y = reinterpret_cast<float*>(context.activation.data());
    for (std::uint32_t l = 0; l < layers_; ++l) {
      y = output(context.activation, l);
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t o = 0; o < options_.width; ++o) {
          float sum = 0;
          for (std::uint32_t i = 0; i < options_.width; ++i)
            sum += x[r * options_.width + i] * weight(l)[i * options_.width + o];
          y[r * options_.width + o] = std::tanh(sum);
        }
      x = y;
    }
    context.poll();
    if (last_) {
      const float* target = (*context.targets)[0].as<float>();
      double loss = 0;
      for (std::uint32_t i = 0; i < rows * options_.width; ++i) {
        const double d = static_cast<double>(y[i]) - target[i];
        loss += d * d;
      }
      *context.loss =
          static_cast<float>(context.microbatch) == options_.poison_at ? std::nan("") : loss / rows;
    } else {
      std::memcpy(result.tensors[0].data(), y, result.tensors[0].bytes());
      if (options_.extra_tensor) {
        Tensor extra = context.allocate(1, DType::int32, Shape{rows});
        for (std::uint32_t r = 0; r < rows; ++r)
          extra.as<std::int32_t>()[r] = static_cast<std::int32_t>(context.microbatch * 100 + r + stage_);
        result.tensors.push_back(std::move(extra));
      }
    }
    if (stage_ > 0 && options_.extra_tensor &&
        context.input[1].as<std::int32_t>()[0] !=
            static_cast<std::int32_t>(context.microbatch * 100 + stage_ - 1u))
      throw Error("the second tensor is not that of this micro-batch");
    co_return result;
  }

  Task<StageOutput> backward_input(MicrobatchContext& context, TensorList output_gradient) override {
    linger(context, 1);
    const Tensor& input = stage_ == 0 ? (*context.inputs)[0] : context.input[0];
    const Shape shape = input.shape();
    const std::uint32_t rows = shape[0];
    const std::uint32_t values = rows * options_.width;
    auto* g = reinterpret_cast<float*>(context.workspace.data());  // gradient of the current layer's output
    const float* top = output(context.activation, layers_ - 1);
    for (std::uint32_t i = 0; i < values; ++i)
      g[i] = last_ ? 2.0f * (top[i] - (*context.targets)[0].as<float>()[i]) /
                         static_cast<float>(rows * context.microbatches)
                   : output_gradient[0].as<float>()[i];
    for (std::uint32_t l = layers_; l-- > 0;) {
      const float* x = l == 0 ? input.as<float>() : output(context.activation, l - 1);
      const float* y = output(context.activation, l);
      float* d = output(context.weight, l);
      std::memcpy(output(context.weight, layers_ + l), x, values * sizeof(float));
      for (std::uint32_t i = 0; i < values; ++i) d[i] = g[i] * (1.0f - y[i] * y[i]);
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t i = 0; i < options_.width; ++i) {
          float sum = 0;
          for (std::uint32_t o = 0; o < options_.width; ++o)
            sum += d[r * options_.width + o] * weight(l)[i * options_.width + o];
          g[r * options_.width + i] = sum;
        }
    }
    StageOutput result;
    if (stage_ > 0) {
      Tensor dx = context.allocate(0, DType::float32, shape);
      std::memcpy(dx.data(), g, dx.bytes());
      result.tensors.push_back(std::move(dx));
    }
    context.note[0] = rows;
    co_return result;
  }

  Task<void> backward_weight(MicrobatchContext& context) override {
    linger(context, 2);
    const std::uint32_t rows = context.note[0];
    for (std::uint32_t l = 0; l < layers_; ++l) {
      const float* x = output(context.weight, layers_ + l);
      const float* d = output(context.weight, l);
      float* gradient = parameters_[l].gradient;
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t i = 0; i < options_.width; ++i)
          for (std::uint32_t o = 0; o < options_.width; ++o)
            gradient[i * options_.width + o] += x[r * options_.width + i] * d[r * options_.width + o];
    }
    co_return;
  }

 private:
  void linger(const MicrobatchContext& context, std::uint64_t kind) const {
    if (options_.longest_delay == 0 || context.step == 1) return;
    const CounterRandom random(context.step, RandomPurpose::simulation, stage_);
    const double share = random.uniform(3 * std::uint64_t{context.microbatch} + kind);
    const Nanoseconds end =
        now_ns() + static_cast<Nanoseconds>(share * static_cast<double>(options_.longest_delay));
    while (now_ns() < end) context.poll();
  }
  /// Layers with weights of their own; those after them are tied.
  [[nodiscard]] std::uint32_t untied() const { return options_.layers - options_.tied; }
  [[nodiscard]] std::size_t matrix_bytes() const {
    return std::size_t{options_.width} * options_.width * sizeof(float);
  }
  float* weight(std::uint32_t l) { return reinterpret_cast<float*>(parameters_[l].value); }
  [[nodiscard]] float* output(std::span<std::byte> slot, std::uint32_t l) const {
    return reinterpret_cast<float*>(slot.data()) + std::size_t{l} * options_.rows * options_.width;
  }
  std::uint16_t stage_;
  bool last_;
  ToyOptions options_;
  std::uint32_t first_layer_ = 0;
  std::uint32_t layers_ = 0;
  std::vector<Parameter> parameters_;
};

inline StageFactory toy_stages(ToyOptions options = {}) {
  return [options](std::uint16_t stage, std::uint16_t stages) {
    return std::make_unique<ToyStage>(stage, stages, options);
  };
}

/// Plain gradient descent.
class ToyOptimizer final : public Optimizer {
 public:
  std::size_t state_bytes(std::span<Parameter* const>) const override { return 0; }
  void allocate(std::span<Parameter* const> parameters, Arena&, Queue&) override {
    parameters_.assign(parameters.begin(), parameters.end());
  }
  void update(std::uint64_t, double scale) override {
    for (Parameter* p : parameters_) {
      auto* value = reinterpret_cast<float*>(p->value);
      for (std::uint64_t i = 0; i < p->shape.elements(); ++i) {
        value[i] -= 0.1f * static_cast<float>(scale) * p->gradient[i];
        p->gradient[i] = 0;
      }
    }
  }
  double learning_rate(std::uint64_t) const override { return 0.1; }
  std::vector<OptimizerState> state() override { return {}; }

 private:
  std::vector<Parameter*> parameters_;
};

inline OptimizerFactory toy_optimizer() {
  return [] { return std::make_unique<ToyOptimizer>(); };
}

/// Inputs and targets of one step, a pure function of (step, micro-batch); rows differ between micro-batches
/// when `ragged`.
class ToyBatch final : public BatchSource {
 public:
  ToyBatch(std::uint64_t step, std::uint32_t microbatches, ToyOptions options = {}, bool ragged = false) {
    values_.reserve(2u * microbatches);
    for (std::uint32_t k = 0; k < microbatches; ++k) {
      const std::uint32_t rows =
          ragged ? 1 + (k + static_cast<std::uint32_t>(step)) % options.rows : options.rows;
      auto& x = values_.emplace_back(rows * options.width);
      auto& y = values_.emplace_back(rows * options.width);
      for (std::uint32_t i = 0; i < x.size(); ++i) {
        x[i] = std::cos(static_cast<float>(i + 3 * k) * 0.9f + static_cast<float>(step));
        y[i] = 0.4f * x[i];
      }
      inputs_.push_back(view(x, rows, options.width));
      targets_.push_back(view(y, rows, options.width));
    }
  }
  const TensorList& inputs(std::uint32_t microbatch) override { return inputs_[microbatch]; }
  const TensorList& targets(std::uint32_t microbatch) override { return targets_[microbatch]; }
  std::span<const TensorList> all_inputs() const { return inputs_; }
  std::span<const TensorList> all_targets() const { return targets_; }

 private:
  static TensorList view(std::vector<float>& values, std::uint32_t rows, std::uint32_t width) {
    return TensorList(
        Tensor(Buffer::borrowed(reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(float)),
               DType::float32, Shape{rows, width}));
  }
  std::vector<std::vector<float>> values_;
  std::vector<TensorList> inputs_;
  std::vector<TensorList> targets_;
};

}  // namespace weft::toy
