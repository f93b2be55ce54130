#pragma once
// For benchmarks whose stages have no parameters.
#include <cstdint>
#include <span>
#include <vector>

#include "weft/actors/optimizer.h"

namespace weft {

class NoOptimizer final : public Optimizer {
 public:
  std::size_t state_bytes(std::span<Parameter* const>) const override { return 0; }
  void allocate(std::span<Parameter* const>, Arena&, Queue&) override {}
  void update(std::uint64_t, double) override {}
  double learning_rate(std::uint64_t) const override { return 0; }
  std::vector<OptimizerState> state() override { return {}; }
};

}  // namespace weft
