#include <gmock/gmock.h>

#include <fstream>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"
#include "weft/tensor/bfloat16.h"
#include "weft/tests/training/checkpoint_fixture.h"
#include "weft/training/checkpoint/checkpoint_search.h"

namespace weft {

static void PrintTo(DType type, std::ostream* out) { *out << dtype_name(type); }

namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class CheckpointLayouts : public CheckpointTest, public testing::WithParamInterface<DType> {};

TEST_P(CheckpointLayouts, GiveBackEveryBitToAnyOtherLayout) {
  for (const std::uint32_t writers : {1u, 2u, 3u, 5u}) {
    FakeModel model(writers, GetParam());
    model.fill(writers);
    const auto checkpoint = save(model, checkpoints, writers);
    EXPECT_EQ(read_manifest(checkpoint).position, position_at(writers));
    for (const std::uint32_t readers : {1u, 2u, 3u, 8u}) {
      FakeModel other(readers, GetParam());
      restore(other, checkpoint);
      EXPECT_TRUE(other.holds(writers)) << writers << " to " << readers;
      EXPECT_EQ(other.weights_hash(), read_manifest(checkpoint).weights_sha256);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Of, CheckpointLayouts, testing::Values(DType::float32, DType::bfloat16),
                         [](const auto& type) { return std::string(dtype_name(type.param)); });

using CheckpointSave = CheckpointTest;

TEST_F(CheckpointSave, WritesTheStateOfTheMomentItWasStarted) {
  FakeModel model(1, DType::bfloat16);
  model.fill(1);
  auto& rank = model.ranks[0];
  SnapshotWriter writer(0, rank.parameters, rank.states);
  const auto temporary = temporary_folder(checkpoints, 1, "x");
  EXPECT_FALSE(writer.ready());
  writer.start(temporary);
  model.fill(2);
  EXPECT_THROW(writer.start(temporary), CheckpointError);
  const std::vector<RankFiles> files{writer.finish()};
  EXPECT_FALSE(writer.started());
  const auto checkpoint = commit_checkpoint(checkpoints, temporary, position_at(1), files);
  restore(model, checkpoint);
  EXPECT_TRUE(model.holds(1));
  EXPECT_THROW((void)writer.finish(), CheckpointError);
}

TEST_F(CheckpointSave, TakesTheMemoryThatThePlanWasTold) {
  const FakeModel model(1, DType::bfloat16);
  const auto& rank = model.ranks[0];
  const std::size_t bytes = SnapshotWriter::snapshot_bytes(rank.parameters, rank.states);
  // 17 stored parameters: values, masters and two moments, each rounded up to 64 bytes
  EXPECT_EQ(bytes, aligned(7 * 3 * 2) + 3 * aligned(7 * 3 * 4) + 8 * (aligned(3 * 2) + 3 * aligned(3 * 4)) +
                       8 * (aligned(5 * 3 * 2) + 3 * aligned(5 * 3 * 4)));
}

TEST_F(CheckpointSave, RefusesStateThatBelongsToNoParameter) {
  FakeModel model(1, DType::float32);
  model.ranks[0].states[0].name = "nobody.exp_avg";
  EXPECT_THROW(save(model, checkpoints, 1), CheckpointError);
}

TEST_F(CheckpointSave, LeavesNothingButTheCheckpointAndLatest) {
  FakeModel model(2, DType::float32);
  save(model, checkpoints, 7);
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000007"));
  EXPECT_EQ(read_small_file(checkpoints / latest_name, 100), "step-00000007\n");
}

TEST_F(CheckpointSave, ReplacesOneOfTheSameStep) {
  FakeModel model(2, DType::float32);
  model.fill(1);
  save(model, checkpoints, 7);
  model.fill(2);
  save(model, checkpoints, 7);
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000007"));
  restore(model, checkpoints / "step-00000007");
  EXPECT_TRUE(model.holds(2));
  // also a damaged one, with fewer ranks than before
  std::ofstream(checkpoints / "step-00000007" / "manifest.json") << "junk";
  FakeModel small(1, DType::float32);
  small.fill(3);
  const auto found = save(small, checkpoints, 7);
  EXPECT_EQ(verify_checkpoint(found).files.size(), 2u);
}

TEST_F(CheckpointSave, IsNotCommittedWhenARanksFileIsMissingOrShort) {
  FakeModel model(1, DType::float32);
  const auto& rank = model.ranks[0];
  SnapshotWriter writer(0, rank.parameters, rank.states);
  const auto temporary = temporary_folder(checkpoints, 1, "x");
  writer.start(temporary);
  const std::vector<RankFiles> files{writer.finish()};
  std::filesystem::resize_file(temporary / "state-0000.safetensors", 100);
  EXPECT_THROW(commit_checkpoint(checkpoints, temporary, position_at(1), files), CheckpointError);
  std::filesystem::remove(temporary / "state-0000.safetensors");
  EXPECT_THROW(commit_checkpoint(checkpoints, temporary, position_at(1), files), CheckpointError);
  EXPECT_FALSE(find_newest_valid(checkpoints).newest);
}

TEST_F(CheckpointSave, NeverWritesIntoWhatAnotherAttemptLeft) {
  FakeModel model(1, DType::float32);
  const auto temporary = temporary_folder(checkpoints, 1, "a1");
  std::filesystem::create_directories(temporary);
  std::ofstream(temporary / "weights-0000.safetensors") << "left over";
  EXPECT_THROW(save(model, checkpoints, 1), CheckpointError);
  save(model, checkpoints, 1, {}, "a2");
  std::filesystem::create_directories(temporary);
  std::ofstream(checkpoints / ".latest.tmp-123") << "x";
  std::filesystem::create_directories(checkpoints / ".old-step-00000009");
  remove_unfinished(checkpoints);
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000001"));
  remove_unfinished(folder / "nowhere");
}

TEST_F(CheckpointSave, KeepsAsManyAsItWasTold) {
  FakeModel model(1, DType::float32);
  for (const std::uint64_t step : {100u, 200u, 300u, 150u}) save(model, checkpoints, step);
  std::filesystem::create_directories(checkpoints / "step-00000050");  // damaged, kept for the user
  EXPECT_THROW(keep_last(checkpoints, 0), CheckpointError);
  keep_last(checkpoints, 9);
  EXPECT_EQ(names().size(), 6u);
  keep_last(checkpoints, 2);
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000050", "step-00000150", "step-00000300"));
  keep_last(checkpoints, 1);
  EXPECT_THAT(names(), ElementsAre("latest", "step-00000050", "step-00000150"));
}

using CheckpointLoad = CheckpointTest;

TEST_F(CheckpointLoad, NamesWhatDoesNotFit) {
  FakeModel model(1, DType::float32);
  const auto checkpoint = save(model, checkpoints, 1);
  const CheckpointReader reader(checkpoint);
  const auto problem = [&](const std::function<void(RankState&)>& change) -> std::string {
    FakeModel other(1, DType::float32);
    change(other.ranks[0]);
    try {
      reader.restore(other.ranks[0].parameters, other.ranks[0].states);
    } catch (const CheckpointError& error) {
      return error.what();
    }
    return "accepted";
  };
  EXPECT_EQ(problem([](RankState&) {}), "accepted");
  EXPECT_THAT(problem([](RankState& r) {
                r.parameters[1]->name = "new";
                r.states.clear();
              }),
              HasSubstr("missing: \"new\""));
  EXPECT_THAT(problem([](RankState& r) { r.states[3].name = "layers.0.norm.other"; }),
              HasSubstr("missing: \"layers.0.norm.other\""));
  EXPECT_THAT(problem([](RankState& r) {
                r.parameters[2]->shape = Shape{3, 5};
              }),
              HasSubstr("\"layers.0.weight\" is F32 [5, 3], the model's is [3, 5]"));
  EXPECT_THAT(problem([](RankState& r) { r.parameters[2]->dtype = DType::bfloat16; }),
              HasSubstr("the model's is BF16"));
  EXPECT_THAT(problem([](RankState& r) { r.parameters[0]->master = r.take(21); }),
              HasSubstr("missing: \"embed.weight.master\""));

  std::vector<std::string> all;
  for (const auto* p : model.ranks[0].parameters) all.push_back(p->name);
  all.pop_back();  // the second use of the embedding
  reader.require_model(all);
  all.back() = "layers.8.weight";
  try {
    reader.require_model(all);
    ADD_FAILURE();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("missing: \"layers.8.weight\"; unexpected: \"layers.7.weight\""));
  }
}

TEST_F(CheckpointLoad, ConvertsWeightsForAFreshStart) {
  FakeModel model(2, DType::float32);
  for (auto& rank : model.ranks)
    for (auto* p : rank.parameters)
      for (std::size_t i = 0; i < p->shape.elements(); ++i)
        store_le(p->value + 4 * i, 1.0f + static_cast<float>(i) / 1024);
  const CheckpointReader reader(save(model, checkpoints, 1));
  FakeModel half(1, DType::bfloat16);
  reader.load_weights(half.ranks[0].parameters);
  for (const auto* p : half.ranks[0].parameters)
    for (std::size_t i = 0; i < p->shape.elements(); ++i) {
      EXPECT_EQ(p->master[i], 1.0f + static_cast<float>(i) / 1024);
      EXPECT_EQ(load_le<std::uint16_t>(p->value + 2 * i), to_bfloat16(p->master[i]).bits);
    }
  // with stored masters those are taken, not the rounded values
  const CheckpointReader again(save(half, checkpoints, 2));
  FakeModel other(3, DType::bfloat16);
  for (auto& rank : other.ranks) again.load_weights(rank.parameters);
  EXPECT_EQ(other.ranks[0].parameters[0]->master[1], 1.0f + 1.0f / 1024);
}

}  // namespace
}  // namespace weft
