// What this process tells its launcher as a rank. In processes of their own, since UCX does not outlive a
// fork.
#include "weft/actors/rank_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/one_rank_launcher.h"
#include "toy_model.h"
#include "weft/actors/pipeline.h"
#include "weft/tests/transport/process_group.h"

namespace weft {
namespace {

using test::Gate;

PipelineConfig slow_to_end(Gate& gate) {
  PipelineConfig config;
  config.stages = toy::toy_stages({});
  config.optimizer = [&gate] {
    return std::make_unique<test::SlowToEnd>(std::make_unique<toy::ToyOptimizer>(), gate);
  };
  return config;
}

/// Throws unless the launcher hears `words` before the rank's memory goes.
void expect_told(const std::string& words, void (*rank)(Gate&)) {
  const auto endings = test::run_processes(1, [&](std::uint32_t, const ByteExchange&) {
    Gate gate;
    const std::string told = test::told_by(gate, [&] { rank(gate); });
    if (told.find(words) == std::string::npos) throw Error("told: '" + told + "'");
  });
  EXPECT_EQ(test::first_error(endings), "");
}

TEST(RankProcess, TellsWhyAStepFailedBeforeItEnds) {
  expect_told("rank 0 failed: no update today", [](Gate& gate) {
    Pipeline pipeline(slow_to_end(gate));
    toy::ToyBatch batch(1, 1);
    pipeline.step(batch.all_inputs(), batch.all_targets());
  });
}

TEST(RankProcess, TellsWhyItCannotBeMadeBeforeItEnds) {
  expect_told("rank 0 failed: the policy factory made no policy", [](Gate& gate) {
    PipelineConfig config = slow_to_end(gate);
    config.policy = [](const Schedule&, std::uint32_t) { return std::unique_ptr<Policy>(); };
    Pipeline pipeline(std::move(config));
  });
}

TEST(RankProcess, TellsThatItsProgramFailsBetweenSteps) {
  expect_told("rank 0 failed: the program ends its pipeline by an exception of its own", [](Gate& gate) {
    Pipeline pipeline(slow_to_end(gate));
    throw Error("of the program");
  });
}

}  // namespace
}  // namespace weft
