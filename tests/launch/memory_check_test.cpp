#include "weft/launch/memory_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "weft/launch/machine.h"
#include "weft/launch/model_plan.h"
#include "weft/tests/support/scratch_folder.h"
#include "weft/training/config/load.h"
#include "weft/training/configured_schedule.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

struct Planned {
  NanotronConfig config;
  PipelinePlan plan;
};

Planned plan_with(const std::string& model, const std::string& tokens, const std::string& more = "") {
  const std::string text = "model:\n  dtype: float32\n  init_method: {std: 0.02}\n  model_config: {" + model +
                           "num_hidden_layers: 4, num_attention_heads: 2, vocab_size: 256}\n"
                           "parallelism: {pp: 2}\npipeline_parallel: {schedule: afab}\ntokens: {" +
                           tokens +
                           "sequence_length: 64, train_steps: 3}\n"
                           "data_stages: [{name: random, start_training_step: 1, data: {}}]\n"
                           "optimizer: {optimizer_factory: {name: adamW}, learning_rate_scheduler: "
                           "{learning_rate: 0.001}}\n" +
                           more;
  const NanotronConfig config = parse_config(text, "c.yaml").config;
  return {config, pipeline_of_model(config, configured_schedule(config))};
}

std::string refusal(const Planned& planned, std::uint64_t usable) {
  try {
    check_memory(planned.plan, planned.config, usable, {});
  } catch (const ConfigError& e) {
    return e.what();
  }
  return {};
}

TEST(MemoryCheck, TakesAllRanksOfThisHostTogether) {
  const Planned planned = plan_with("hidden_size: 16, intermediate_size: 32, ",
                                    "micro_batch_size: 1, batch_accumulation_per_replica: 4, ",
                                    "checkpoints: {save_final_state: false}\n");
  const PipelinePlan& plan = planned.plan;
  const std::uint64_t all = plan.memory(0).total() + plan.memory(1).total();
  EXPECT_EQ(refusal(planned, all), "");
  const std::uint64_t most = std::max(plan.memory(0).total(), plan.memory(1).total());
  EXPECT_THAT(refusal(planned, all - 1),
              AllOf(HasSubstr(std::to_string(most)), HasSubstr(std::to_string(all)),
                    HasSubstr(std::to_string(all - 1))));
}

TEST(MemoryCheck, CountsTheCopiesForCheckpointsOfATrainingThatSaves) {
  for (const char* saving : {"", "checkpoints: {save_final_state: false, checkpoint_interval: 2}\n",
                             "checkpoints: {save_final_state: false, save_initial_state: true}\n"}) {
    const Planned planned = plan_with("hidden_size: 16, intermediate_size: 32, ",
                                      "micro_batch_size: 1, batch_accumulation_per_replica: 4, ", saving);
    std::uint64_t all = 0;
    for (const std::uint32_t rank : {0U, 1U})
      all += planned.plan.memory(rank).total() + planned.plan.memory(rank).checkpoint_copy;
    EXPECT_EQ(refusal(planned, all), "") << saving;
    EXPECT_NE(refusal(planned, all - 1), "") << saving;
  }
}

TEST(MemoryCheck, NamesWhatMostBytesComeFrom) {
  const std::string large = "hidden_size: 4096, intermediate_size: 16384, ";
  EXPECT_THAT(refusal(plan_with(large, "micro_batch_size: 1, batch_accumulation_per_replica: 4, "), 1),
              AllOf(StartsWith("model.model_config: rank "), HasSubstr("fewer layers")));
  const std::string small = "hidden_size: 16, intermediate_size: 32, ";
  EXPECT_THAT(refusal(plan_with(small, "micro_batch_size: 100_000, batch_accumulation_per_replica: 4, "), 1),
              AllOf(StartsWith("tokens.micro_batch_size: rank "), HasSubstr("max_in_flight")));
}

TEST(MemoryCheck, HasNoPlanOfBytesThatDoNotFit64Bits) {
  EXPECT_THROW(plan_with("hidden_size: 65_536, intermediate_size: 65_536, ",
                         "micro_batch_size: 1_048_576, batch_accumulation_per_replica: 1_000_000, "),
               ConfigError);
}

class GroupMemoryLimit : public testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((folder_ / file).parent_path());
    std::ofstream(folder_ / file) << text;
  }
  [[nodiscard]] std::optional<std::uint64_t> limit(const std::string& membership) const {
    return group_memory_limit(membership, folder_.string());
  }

 private:
  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(GroupMemoryLimit, IsTheSmallestOnTheWayToTheGroup) {
  put("memory.max", "max\n");
  put("a/memory.max", "5000\n");
  put("a/b/memory.max", "7000\n");
  put("a/c/memory.max", "3000\n");
  EXPECT_EQ(limit("0::/a/b\n"), 5000U);
  EXPECT_EQ(limit("0::/a/c\n"), 3000U);
  EXPECT_EQ(limit("0::/\n"), std::nullopt);
  EXPECT_EQ(limit("0::/not/here\n"), std::nullopt);
  EXPECT_EQ(limit("nonsense\n0::/a\n"), 5000U);
}

TEST_F(GroupMemoryLimit, IsReadInTheFirstVersionOfGroupsToo) {
  put("memory/memory.limit_in_bytes", "9000\n");
  put("memory/a/memory.limit_in_bytes", "4000\n");
  EXPECT_EQ(limit("9:name=systemd:/\n4:cpu,memory:/a\n0::/\n"), 4000U);
  EXPECT_EQ(limit("4:memory:/hidden/by/a/container\n"), 9000U);
  EXPECT_EQ(limit("5:cpu:/a\n"), std::nullopt);
}

TEST(UsableMemory, IsThereAndNoMoreThanTheMachineHas) {
  EXPECT_GT(usable_memory(), std::uint64_t{1} << 26);
  EXPECT_LE(usable_memory(), main_memory().bytes + (std::uint64_t{1} << 50));
}

}  // namespace
}  // namespace weft
