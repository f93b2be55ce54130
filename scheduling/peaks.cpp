#include "weft/scheduling/peaks.h"

#include <algorithm>

namespace weft {

namespace {

struct Count {
  StagePeaks peaks;
  std::uint32_t in_flight = 0;
  std::uint32_t activations = 0;
  std::uint32_t weights = 0;
};

Count& count_of(std::vector<Count>& counts, std::uint16_t stage) {
  for (Count& count : counts)
    if (count.peaks.stage == stage) return count;
  counts.emplace_back().peaks.stage = stage;
  return counts.back();
}

void raise(std::uint32_t& peak, std::uint32_t value) { peak = std::max(peak, value); }

}  // namespace

RankPeaks count_peaks(const RankOrder& order) {
  RankPeaks result;
  std::vector<Count> counts;
  std::uint32_t in_flight = 0;
  for (const Op& op : order) {
    Count& count = count_of(counts, op.stage);
    const bool takes_weight = op.kind == OpKind::backward || op.kind == OpKind::backward_input;
    const bool ends_pair = op.kind == OpKind::backward || op.kind == OpKind::backward_weight;
    if (op.kind == OpKind::forward) {
      raise(result.in_flight, ++in_flight);
      raise(count.peaks.in_flight, ++count.in_flight);
      raise(count.peaks.activation_slots, ++count.activations);
    }
    if (takes_weight) {
      raise(count.peaks.weight_slots, ++count.weights);
      --count.activations;
    }
    if (ends_pair) {
      --count.weights;
      --count.in_flight;
      --in_flight;
    }
  }
  for (const Count& count : counts) result.stages.push_back(count.peaks);
  std::sort(result.stages.begin(), result.stages.end(),
            [](const StagePeaks& a, const StagePeaks& b) { return a.stage < b.stage; });
  return result;
}

std::vector<std::uint32_t> peak_in_flight(const Order& order) {
  std::vector<std::uint32_t> peaks;
  for (const RankOrder& rank : order) peaks.push_back(count_peaks(rank).in_flight);
  return peaks;
}

}  // namespace weft
