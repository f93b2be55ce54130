#include "weft/scheduling/placement.h"

namespace weft {

std::vector<std::vector<std::uint16_t>> place_stages(std::uint32_t ranks, std::uint32_t chunks,
                                                     Placement placement) {
  std::vector<std::vector<std::uint16_t>> stages(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk)
      stages[rank].push_back(stage_of(rank, chunk, ranks, placement));
  return stages;
}

}  // namespace weft
