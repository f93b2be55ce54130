// The schedule of a configuration, and the key that is named when there is none.
#include "weft/training/configured_schedule.h"
#include "weft/tests/support/scratch_folder.h"

#include "config_text.h"

namespace weft {
namespace {

using test::ScratchFolder;
using ::testing::HasSubstr;
using testing::load_with;
using ::testing::StartsWith;

/// What loading, or else making the schedule, fails with; four layers, two ranks, four micro-batches.
std::string refusal(const std::vector<std::string>& arguments) {
  try {
    const LoadedConfig loaded = load_with(arguments);
    (void)configured_schedule(loaded.config, loaded.sources);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return {};
}

TEST(ConfiguredSchedule, IsTheOneThatWasAskedFor) {
  const Schedule schedule = configured_schedule(load_with({"pipeline_parallel.schedule=zbv"}).config);
  EXPECT_EQ(schedule.name, "zbv");
  EXPECT_EQ(schedule.ranks, 2U);
  EXPECT_EQ(schedule.stage_count, 4U);
  EXPECT_EQ(schedule.microbatches, 4U);
}

TEST(ConfiguredSchedule, NamesTheKeyAtFaultAndItsPlace) {
  const std::string chunks = "pipeline_parallel.chunks=";
  const std::string schedule = "pipeline_parallel.schedule=";
  EXPECT_EQ(
      refusal({chunks + "2"}),
      "--set:1:26: pipeline_parallel.chunks: 1f1b needs exactly 1 stage per rank, not 2; allowed: auto, 1");
  EXPECT_EQ(
      refusal({chunks + "1", schedule + "zbv"}),
      "--set:1:26: pipeline_parallel.chunks: zbv needs exactly 2 stages per rank, not 1; allowed: auto, 2");
  EXPECT_THAT(refusal({chunks + "1", schedule + "interleaved_1f1b"}),
              HasSubstr("needs at least 2 stages per rank, not 1; allowed: auto, 2 or more"));
  EXPECT_THAT(refusal({"pipeline_parallel.max_in_flight=1"}),
              StartsWith("--set:1:33: pipeline_parallel.max_in_flight: "));
  EXPECT_THAT(refusal({schedule + "dualpipe_v", "tokens.batch_accumulation_per_replica=3"}),
              StartsWith("--set:1:39: tokens.batch_accumulation_per_replica: "));
  EXPECT_EQ(refusal({"pipeline_parallel.max_in_flight=2"}), "");
  EXPECT_EQ(refusal({chunks + "2", schedule + "zbv"}), "");
}

TEST(ConfiguredSchedule, NamesTheKeyThatDoesNotFitAFile) {
  const ScratchFolder folder;
  const std::string file = "pipeline_parallel.schedule=";
  const std::string good =
      file + folder.write("good.csv", "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");  // two ranks, two micro-batches
  const std::string two = "tokens.batch_accumulation_per_replica=2";
  EXPECT_EQ(refusal({good, two}), "");
  EXPECT_THAT(refusal({good}), HasSubstr(" tokens.batch_accumulation_per_replica: "));
  EXPECT_THAT(refusal({good, two, "parallelism.pp=3"}), StartsWith("--set:1:16: parallelism.pp: "));
  EXPECT_THAT(refusal({good, two, "pipeline_parallel.chunks=2"}),
              StartsWith("--set:1:26: pipeline_parallel.chunks: "));
  EXPECT_THAT(refusal({good, two, "pipeline_parallel.max_in_flight=1"}),
              StartsWith("--set:1:33: pipeline_parallel.max_in_flight: "));
  const std::string bad = refusal({file + folder.write("bad.csv", "0F0,0B0,0F0\n"), two});
  EXPECT_THAT(bad, StartsWith("--set:1:28: pipeline_parallel.schedule: "));
  EXPECT_THAT(bad, HasSubstr("row 1, column 3"));
  const std::string late = refusal({file + folder.write("late.csv", "0B0,0F0\n1F0,1B0\n"), two});
  EXPECT_THAT(late, ::testing::Not(HasSubstr("\n")));
}

}  // namespace
}  // namespace weft
