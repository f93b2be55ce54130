#include "weft/model/optimizer/sgd.h"

#include <utility>

#include "weft/base/error.h"
#include "weft/model/ops/cpu/row_kernels.h"
#include "weft/model/optimizer/parameter_chunks.h"
#include "weft/model/thread_team_of_thread.h"

namespace weft {

SgdOptimizer::SgdOptimizer(SgdConfig config) : config_(std::move(config)) {
  if (!config_.learning_rate) throw Error("SGD has no learning rate");
  if (!(config_.weight_decay >= 0)) throw Error("weight_decay must not be negative");
}

void SgdOptimizer::allocate(std::span<Parameter* const> parameters, Arena&, Queue&) {
  parameters_.assign(parameters.begin(), parameters.end());
}

void SgdOptimizer::update(std::uint64_t step, double gradient_scale) {
  cpu::SgdFactors factors;
  factors.gradient_scale = static_cast<float>(gradient_scale);
  factors.learning_rate = static_cast<float>(config_.learning_rate(step));
  cpu::ThreadTeam& team = thread_team_of_this_thread(config_.threads);
  for (const Parameter* parameter : parameters_) {
    factors.weight_decay = parameter->weight_decay ? static_cast<float>(config_.weight_decay) : 0.0f;
    for_chunks(team, *parameter,
               [&](auto* value, float* master, float* gradient, std::size_t, std::size_t count) {
                 using T = std::remove_pointer_t<decltype(value)>;
                 cpu::row_kernels<T>().sgd(value, master, gradient, count, factors);
               });
  }
}

}  // namespace weft
