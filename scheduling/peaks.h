#pragma once
// How many slots an order needs: counted along each rank's list, so independent of time.
#include <cstdint>
#include <vector>

#include "weft/scheduling/op.h"

namespace weft {

/// The most of each kind that is held at once at one stage. A slot is taken when the first op named starts
/// and freed when the last one ends; B takes its weight-work slot while it runs.
struct StagePeaks {
  std::uint16_t stage = 0;
  std::uint32_t in_flight = 0;         ///< F to the last backward op
  std::uint32_t activation_slots = 0;  ///< F to I (or B)
  std::uint32_t weight_slots = 0;      ///< I to W
};

/// The most (stage, micro-batch) pairs in flight at once on a rank, and the peaks of its stages (ascending),
/// each at its own worst moment.
struct RankPeaks {
  std::uint32_t in_flight = 0;
  std::vector<StagePeaks> stages;
};

/// The peaks of one rank's order. Give it the order as run where W's are held (see as_run).
[[nodiscard]] RankPeaks count_peaks(const RankOrder& order);

/// The peak of pairs in flight of every rank.
[[nodiscard]] std::vector<std::uint32_t> peak_in_flight(const Order& order);

}  // namespace weft
