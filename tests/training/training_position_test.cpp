#include "weft/training/training_position.h"

#include "config_text.h"

namespace weft {
namespace {

using weft::testing::load_with;

TEST(TrainingPosition, CountsTheSamplesOfEveryDataStageInWhateverOrderTheyStand) {
  const std::string early = "{name: early, start_training_step: 1, data: {dataset: null}}";
  const std::string late = "{name: late, start_training_step: 4, data: {dataset: null, seed: 5}}";
  for (const bool reversed : {false, true}) {
    const NanotronConfig config =
        load_with({"data_stages=[" + (reversed ? late + ", " + early : early + ", " + late) + "]"}).config;
    const TrainingData data(config);
    for (const std::uint64_t step : {0u, 2u, 3u, 4u, 9u}) {
      const TrainingPosition position = training_position(config, data, step, "{}");
      EXPECT_EQ(position.consumed_samples, 8 * step);
      for (const DataPosition& stage : position.data) {
        const bool is_early = stage.stage == "early";
        const std::uint64_t before =
            is_early ? std::min<std::uint64_t>(step, 3) : step - std::min<std::uint64_t>(step, 3);
        EXPECT_EQ(stage.consumed_samples, 8 * before) << stage.stage << " after step " << step;
        EXPECT_EQ(stage.fingerprint.empty(), step == 0 || is_early != (step <= 3))
            << stage.stage << " after step " << step;
      }
      EXPECT_TRUE(has_same_data(position, data));
    }
  }
}

}  // namespace
}  // namespace weft
