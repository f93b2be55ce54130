#pragma once
// Who is who among the ranks of a run.
#include <cstdint>
#include <vector>

namespace weft {

/// `replicas` copies of a pipeline of `pipeline_ranks` ranks each. World rank = pipeline rank x replicas +
/// replica, so the replicas of a stage are neighbours.
class Mesh {
 public:
  constexpr Mesh() = default;
  constexpr Mesh(std::uint32_t pipeline_ranks, std::uint32_t replicas) noexcept
      : pipeline_ranks_(pipeline_ranks), replicas_(replicas) {}

  [[nodiscard]] constexpr std::uint32_t pipeline_ranks() const noexcept { return pipeline_ranks_; }
  [[nodiscard]] constexpr std::uint32_t replicas() const noexcept { return replicas_; }
  [[nodiscard]] constexpr std::uint32_t world_size() const noexcept { return pipeline_ranks_ * replicas_; }

  [[nodiscard]] constexpr std::uint32_t pipeline_rank_of(std::uint32_t rank) const noexcept {
    return rank / replicas_;
  }
  [[nodiscard]] constexpr std::uint32_t replica_of(std::uint32_t rank) const noexcept {
    return rank % replicas_;
  }
  [[nodiscard]] constexpr std::uint32_t world_rank(std::uint32_t pipeline_rank,
                                                   std::uint32_t replica) const noexcept {
    return pipeline_rank * replicas_ + replica;
  }

  /// The world ranks of the pipeline that `rank` belongs to, by pipeline rank.
  [[nodiscard]] std::vector<std::uint32_t> pipeline_of(std::uint32_t rank) const {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t p = 0; p < pipeline_ranks_; ++p) ranks.push_back(world_rank(p, replica_of(rank)));
    return ranks;
  }
  /// The world ranks that own the same stages as `rank`, by replica.
  [[nodiscard]] std::vector<std::uint32_t> replicas_of(std::uint32_t rank) const {
    std::vector<std::uint32_t> ranks;
    for (std::uint32_t r = 0; r < replicas_; ++r) ranks.push_back(world_rank(pipeline_rank_of(rank), r));
    return ranks;
  }

  friend constexpr bool operator==(const Mesh&, const Mesh&) = default;

 private:
  std::uint32_t pipeline_ranks_ = 1;
  std::uint32_t replicas_ = 1;
};

}  // namespace weft
