#pragma once
// What a plan and a run are compared by.
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "weft/scheduling/simulation/simulator.h"

namespace weft {

struct OpMean {
  double sum = 0;  // nanoseconds
  double count = 0;
  [[nodiscard]] Nanoseconds time() const noexcept {
    return count == 0 ? 0 : static_cast<Nanoseconds>(sum / count);
  }
};

/// By OpKind.
using OpMeans = std::array<OpMean, 4>;

/// Mean times of the ops that were executed, [stage]. Every stage is below `stages`.
[[nodiscard]] std::vector<OpMeans> op_means(const Simulation& simulation, std::uint32_t stages);

/// Where the ops of a rank begin to differ; none: its list has ended.
struct OpDifference {
  std::uint32_t rank = 0;
  std::uint64_t position = 0;  ///< from 1
  std::optional<Op> planned;
  std::optional<Op> executed;
};

/// Of every rank that differs. Both have Record::events.
[[nodiscard]] std::vector<OpDifference> first_differences(const Simulation& planned, const Simulation& run);

}  // namespace weft
