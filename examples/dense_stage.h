#pragma once
// A stage of one's own: a dense layer with tanh; the last one compares with the target. Shared by the
// examples.
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <weft/actors/optimizer.h>
#include <weft/actors/stage.h>

namespace example {

/// y = tanh(x W). At the last stage the loss is the mean squared distance to the target.
class DenseStage final : public weft::Stage {
 public:
  static constexpr std::uint32_t width = 16;
  static constexpr std::uint32_t most_rows = 32;  // of one micro-batch; fewer may come

  DenseStage(std::uint16_t stage, std::uint16_t stages)
      : first_(stage == 0), last_(stage + 1 == stages), seed_(stage) {
    weft::Parameter weight;
    weight.name = "layer" + std::to_string(stage) + ".weight";
    weight.shape = weft::Shape{width, width};
    parameters_.push_back(weight);
  }

  // What this stage sends and how much memory it needs: known before the first step.
  weft::StagePlan plan(const weft::ShapeList&) override {
    weft::StagePlan plan;
    if (!last_) plan.outputs.push_back({weft::DType::float32, weft::Shape{most_rows, width}});
    plan.activation_slot = most_rows * width * sizeof(float);  // the layer's output, for tanh's derivative
    plan.weight_slot = most_rows * width * sizeof(float);      // the gradient before tanh, for W
    plan.state = 2 * weft::aligned(width * width * sizeof(float));  // weight and gradient
    plan.keeps_input_until_weight = true;                           // W multiplies it with the gradient
    return plan;
  }

  void allocate(weft::Arena& state, weft::Queue&) override {
    weight_ = reinterpret_cast<float*>(state.take(width * width * sizeof(float)));
    gradient_ = reinterpret_cast<float*>(state.take(width * width * sizeof(float)));
    parameters_[0].value = reinterpret_cast<std::byte*>(weight_);
    parameters_[0].gradient = gradient_;
    for (std::uint32_t i = 0; i < width * width; ++i)
      weight_[i] = 0.4f * std::sin(static_cast<float>(i * (seed_ + 3)) * 0.37f);
  }

  std::span<weft::Parameter> parameters() override { return parameters_; }

  weft::Task<weft::StageOutput> forward(weft::MicrobatchContext& context) override {
    const weft::Tensor& x = input(context);
    const std::uint32_t rows = x.shape()[0];
    auto* y = reinterpret_cast<float*>(context.activation.data());
    for (std::uint32_t r = 0; r < rows; ++r)
      for (std::uint32_t o = 0; o < width; ++o) {
        float sum = 0;
        for (std::uint32_t i = 0; i < width; ++i)
          sum += x.as<float>()[r * width + i] * weight_[i * width + o];
        y[r * width + o] = std::tanh(sum);
      }
    weft::StageOutput output;
    if (last_) {
      const float* target = (*context.targets)[0].as<float>();
      double loss = 0;
      for (std::uint32_t i = 0; i < rows * width; ++i)
        loss += (y[i] - target[i]) * (y[i] - target[i]) / (rows * width);
      *context.loss = loss;
    } else {
      weft::Tensor message = context.allocate(0, weft::DType::float32, x.shape());
      std::memcpy(message.data(), y, message.bytes());
      output.tensors.push_back(std::move(message));
    }
    co_return output;
  }

  weft::Task<weft::StageOutput> backward_input(weft::MicrobatchContext& context,
                                               weft::TensorList output_gradient) override {
    const weft::Shape shape = input(context).shape();
    const std::uint32_t rows = shape[0];
    const auto* y = reinterpret_cast<const float*>(context.activation.data());
    auto* d = reinterpret_cast<float*>(context.weight.data());
    const float scale = 2.0f / static_cast<float>(rows * width * context.microbatches);
    for (std::uint32_t i = 0; i < rows * width; ++i) {
      const float g =
          last_ ? scale * (y[i] - (*context.targets)[0].as<float>()[i]) : output_gradient[0].as<float>()[i];
      d[i] = g * (1.0f - y[i] * y[i]);
    }
    weft::StageOutput output;
    if (!first_) {
      weft::Tensor dx = context.allocate(0, weft::DType::float32, shape);
      for (std::uint32_t r = 0; r < rows; ++r)
        for (std::uint32_t i = 0; i < width; ++i) {
          float sum = 0;
          for (std::uint32_t o = 0; o < width; ++o) sum += d[r * width + o] * weight_[i * width + o];
          dx.as<float>()[r * width + i] = sum;
        }
      output.tensors.push_back(std::move(dx));
    }
    co_return output;
  }

  weft::Task<void> backward_weight(weft::MicrobatchContext& context) override {
    const weft::Tensor& x = input(context);
    const auto* d = reinterpret_cast<const float*>(context.weight.data());
    for (std::uint32_t r = 0; r < x.shape()[0]; ++r)
      for (std::uint32_t i = 0; i < width; ++i)
        for (std::uint32_t o = 0; o < width; ++o)
          gradient_[i * width + o] += x.as<float>()[r * width + i] * d[r * width + o];
    co_return;
  }

 private:
  [[nodiscard]] const weft::Tensor& input(const weft::MicrobatchContext& context) const {
    return first_ ? (*context.inputs)[0] : context.input[0];
  }
  bool first_;
  bool last_;
  std::uint32_t seed_;
  float* weight_ = nullptr;
  float* gradient_ = nullptr;
  std::vector<weft::Parameter> parameters_;
};

inline std::unique_ptr<weft::Stage> make_dense_stage(std::uint16_t stage, std::uint16_t stages) {
  return std::make_unique<DenseStage>(stage, stages);
}

/// Plain gradient descent, an optimizer of one's own; weft::make_adamw and weft::make_sgd are in model/.
class GradientDescent final : public weft::Optimizer {
 public:
  std::size_t state_bytes(std::span<weft::Parameter* const>) const override { return 0; }
  void allocate(std::span<weft::Parameter* const> parameters, weft::Arena&, weft::Queue&) override {
    parameters_.assign(parameters.begin(), parameters.end());
  }
  void update(std::uint64_t step, double gradient_scale) override {
    for (weft::Parameter* parameter : parameters_) {
      auto* value = reinterpret_cast<float*>(parameter->value);
      for (std::uint64_t i = 0; i < parameter->shape.elements(); ++i) {
        value[i] -= static_cast<float>(learning_rate(step) * gradient_scale) * parameter->gradient[i];
        parameter->gradient[i] = 0;
      }
    }
  }
  double learning_rate(std::uint64_t) const override { return 2.0; }
  std::vector<weft::OptimizerState> state() override { return {}; }

 private:
  std::vector<weft::Parameter*> parameters_;
};

/// Inputs and targets of one step: m micro-batches whose numbers of rows differ.
struct Batch {
  std::vector<weft::TensorList> inputs;
  std::vector<weft::TensorList> targets;
  std::vector<std::vector<float>> values;

  static std::uint32_t rows_of(std::uint64_t step, std::uint32_t microbatch) {
    return DenseStage::most_rows - (microbatch + static_cast<std::uint32_t>(step)) % 5;
  }
  Batch(std::uint64_t step, std::uint32_t microbatches) {
    values.reserve(2 * microbatches);
    for (std::uint32_t k = 0; k < microbatches; ++k) {
      const std::uint32_t rows = rows_of(step, k);
      auto& x = values.emplace_back(rows * DenseStage::width);
      auto& y = values.emplace_back(rows * DenseStage::width);
      for (std::uint32_t i = 0; i < x.size(); ++i) {
        x[i] = std::sin(static_cast<float>(i + 7 * k) * 0.11f + static_cast<float>(step));
        y[i] = 0.3f * x[i] + 0.2f;
      }
      inputs.push_back(view(x, rows));
      targets.push_back(view(y, rows));
    }
  }

  /// Rows that lie in memory of one's own.
  static weft::TensorList view(std::vector<float>& memory, std::uint32_t rows) {
    auto* data = reinterpret_cast<std::byte*>(memory.data());
    weft::Buffer buffer = weft::Buffer::borrowed(data, memory.size() * sizeof(float));
    return weft::TensorList(
        weft::Tensor(std::move(buffer), weft::DType::float32, weft::Shape{rows, DenseStage::width}));
  }
};

}  // namespace example
