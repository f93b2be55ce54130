#include "weft/model/optimizer/sgd.h"

#include <utility>

#include "weft/base/error.h"

namespace weft {

SgdOptimizer::SgdOptimizer(SgdConfig config) : config_(std::move(config)) {
  if (!config_.learning_rate) throw Error("SGD has no learning rate");
  if (!(config_.weight_decay >= 0)) throw Error("weight_decay must not be negative");
}

void SgdOptimizer::allocate(std::span<Parameter* const> parameters, Arena&, Queue& queue) {
  ops_.emplace(queue, ComputeSettings{.threads = config_.threads});
  parameters_.assign(parameters.begin(), parameters.end());
}

void SgdOptimizer::update(std::uint64_t step, double gradient_scale) {
  SgdFactors factors;
  factors.gradient_scale = static_cast<float>(gradient_scale);
  factors.learning_rate = static_cast<float>(config_.learning_rate(step));
  for (const Parameter* parameter : parameters_) {
    factors.weight_decay = parameter->weight_decay ? static_cast<float>(config_.weight_decay) : 0.0f;
    ops_->with(*parameter, [&](const auto& ops, auto* value) {
      ops.sgd(value, parameter->master, parameter->gradient, parameter->shape.elements(), factors);
    });
  }
}

}  // namespace weft
