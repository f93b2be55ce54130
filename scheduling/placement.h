#pragma once
// Which rank owns which stage.
#include <cstdint>
#include <vector>

namespace weft {

/// loop: stage mod p. fold: stages run from rank 0 to p-1, then back from p-1 to 0, and so on (`v`).
enum class Placement : std::uint8_t { loop, fold };

/// The rank that owns `stage` among `ranks` ranks.
[[nodiscard]] constexpr std::uint32_t rank_of(std::uint32_t stage, std::uint32_t ranks,
                                              Placement placement) noexcept {
  const std::uint32_t place = stage % ranks;
  const bool backwards = placement == Placement::fold && (stage / ranks) % 2 == 1;
  return backwards ? ranks - 1 - place : place;
}

/// The stage that is `rank`'s chunk number `chunk`, the inverse of rank_of.
[[nodiscard]] constexpr std::uint16_t stage_of(std::uint32_t rank, std::uint32_t chunk, std::uint32_t ranks,
                                               Placement placement) noexcept {
  const bool backwards = placement == Placement::fold && chunk % 2 == 1;
  return static_cast<std::uint16_t>(chunk * ranks + (backwards ? ranks - 1 - rank : rank));
}

/// The `chunks` stages of every rank, ascending: result[rank].
[[nodiscard]] std::vector<std::vector<std::uint16_t>> place_stages(std::uint32_t ranks, std::uint32_t chunks,
                                                                   Placement placement);

}  // namespace weft
