#include "weft/scheduling/plan/op_means.h"

#include <algorithm>

namespace weft {

std::vector<OpMeans> op_means(const Simulation& simulation, std::uint32_t stages) {
  std::vector<OpMeans> means(stages);
  for (const RankTimeline& rank : simulation.timeline)
    rank.for_each([&](const Op& op, Nanoseconds start, Nanoseconds end) {
      OpMean& mean = means[op.stage][static_cast<std::size_t>(op.kind)];
      mean.sum += static_cast<double>(end - start);
      mean.count += 1;
    });
  return means;
}

std::vector<OpDifference> first_differences(const Simulation& planned, const Simulation& run) {
  std::vector<OpDifference> differences;
  for (std::uint32_t rank = 0; rank < planned.ranks.size(); ++rank) {
    const RankOrder plan = planned.timeline[rank].order();
    const RankOrder done = run.timeline[rank].order();
    const auto [at, other] = std::mismatch(plan.begin(), plan.end(), done.begin(), done.end());
    if (at == plan.end() && other == done.end()) continue;
    OpDifference& one = differences.emplace_back();
    one.rank = rank;
    one.position = static_cast<std::uint64_t>(at - plan.begin()) + 1;
    if (at != plan.end()) one.planned = *at;
    if (other != done.end()) one.executed = *other;
  }
  return differences;
}

}  // namespace weft
