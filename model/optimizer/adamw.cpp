#include "weft/model/optimizer/adamw.h"

#include <cmath>
#include <utility>

#include "weft/base/error.h"

namespace weft {

AdamWOptimizer::AdamWOptimizer(AdamWConfig config) : config_(std::move(config)) {
  if (!config_.learning_rate) throw Error("AdamW has no learning rate");
  if (!(config_.beta1 >= 0 && config_.beta1 < 1)) throw Error("adam_beta1 must be in [0, 1)");
  if (!(config_.beta2 >= 0 && config_.beta2 < 1)) throw Error("adam_beta2 must be in [0, 1)");
  if (!(config_.epsilon >= 0)) throw Error("adam_eps must not be negative");
  if (!(config_.weight_decay >= 0)) throw Error("weight_decay must not be negative");
}

std::size_t AdamWOptimizer::state_bytes(std::span<Parameter* const> parameters) const {
  std::size_t bytes = 0;
  for (const Parameter* parameter : parameters)
    bytes += 2 * aligned(parameter->shape.elements() * sizeof(float));
  return bytes;
}

void AdamWOptimizer::allocate(std::span<Parameter* const> parameters, Arena& state, Queue& queue) {
  ops_.emplace(queue, ComputeSettings{.threads = config_.threads});
  entries_.clear();
  for (Parameter* parameter : parameters) {
    const std::size_t bytes = parameter->shape.elements() * sizeof(float);
    auto* first = reinterpret_cast<float*>(state.take(bytes));
    auto* second = reinterpret_cast<float*>(state.take(bytes));
    entries_.push_back({parameter, first, second});
  }
}

void AdamWOptimizer::update(std::uint64_t step, double gradient_scale) {
  const double rate = config_.learning_rate(step);
  const auto t = static_cast<double>(step);
  AdamWFactors factors;
  factors.gradient_scale = static_cast<float>(gradient_scale);
  factors.beta1_rest = static_cast<float>(1 - config_.beta1);
  factors.beta2 = static_cast<float>(config_.beta2);
  factors.beta2_rest = static_cast<float>(1 - config_.beta2);
  factors.step_size = static_cast<float>(rate / (1 - std::pow(config_.beta1, t)));
  factors.second_moment_correction = static_cast<float>(std::sqrt(1 - std::pow(config_.beta2, t)));
  factors.epsilon = static_cast<float>(config_.epsilon);
  for (const Entry& entry : entries_) {
    factors.keep = entry.parameter->weight_decay ? static_cast<float>(1 - rate * config_.weight_decay) : 1.0f;
    const Parameter& parameter = *entry.parameter;
    ops_->with(parameter, [&](const auto& ops, auto* value) {
      ops.adamw(value, parameter.master, parameter.gradient, entry.first, entry.second,
                parameter.shape.elements(), factors);
    });
  }
}

std::vector<OptimizerState> AdamWOptimizer::state() {
  std::vector<OptimizerState> list;
  for (const Entry& entry : entries_) {
    list.push_back(
        {entry.parameter->name + ".exp_avg", entry.parameter->shape, entry.first, entry.parameter->queue});
    list.push_back({entry.parameter->name + ".exp_avg_sq", entry.parameter->shape, entry.second,
                    entry.parameter->queue});
  }
  return list;
}

}  // namespace weft
