#include "weft/transport/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using testing::ElementsAre;

TEST(Mesh, CountsTheReplicasOfAStageAsNeighbours) {
  const Mesh mesh(3, 2);
  EXPECT_EQ(mesh.world_size(), 6U);
  EXPECT_THAT(mesh.replicas_of(2), ElementsAre(2U, 3U));
  EXPECT_THAT(mesh.replicas_of(3), ElementsAre(2U, 3U));
  EXPECT_THAT(mesh.pipeline_of(0), ElementsAre(0U, 2U, 4U));
  EXPECT_THAT(mesh.pipeline_of(3), ElementsAre(1U, 3U, 5U));
  for (std::uint32_t rank = 0; rank < 6; ++rank)
    EXPECT_EQ(mesh.world_rank(mesh.pipeline_rank_of(rank), mesh.replica_of(rank)), rank);
}

TEST(Mesh, WithOneReplicaIsThePipelineItself) {
  const Mesh mesh(4, 1);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(mesh.pipeline_rank_of(rank), rank);
    EXPECT_EQ(mesh.replica_of(rank), 0U);
    EXPECT_THAT(mesh.replicas_of(rank), ElementsAre(rank));
  }
  EXPECT_EQ(Mesh().world_size(), 1U);
}

}  // namespace
}  // namespace weft
