// The promise of docs/exactness.md as a matrix: `./weft test exactness`.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>

#include "trainer_fixture.h"
#include "weft/scheduling/orders/schedule.h"

namespace weft {
namespace {

// The suite's name is what `./weft test exactness` looks for.
class exactness : public test::TrainerTest {
 protected:
  void expect_bits(const std::string& what, const Run& run, const Run& expected) {
    std::printf("%s  %s\n", run.result.weights_sha256.c_str(), what.c_str());
    EXPECT_EQ(run.bits(), expected.bits()) << what;
  }
};

TEST_F(exactness, OfEveryScheduleAndNumberOfRanks) {
  for (const std::string dtype : {"float32", "bfloat16"}) {
    const std::string type = "model.dtype=" + dtype;
    const Run expected = train(tiny({type, "pipeline_parallel.schedule=afab"}));
    for (const ScheduleInfo& schedule : all_schedules())
      for (const int pp : {1, 2, 4}) {
        const auto run = train(tiny({type, fmt::format("pipeline_parallel.schedule={}", schedule.name),
                                     fmt::format("parallelism.pp={}", pp)}));
        expect_bits(fmt::format("{} {} pp={}", dtype, schedule.name, pp), run, expected);
      }
  }
}

TEST_F(exactness, OfThreadsPartitionAndRecomputation) {
  for (const std::string dtype : {"float32", "bfloat16"}) {
    const std::string type = "model.dtype=" + dtype;
    const Run expected = train(tiny({type}));
    for (const std::string change :
         {"pipeline_parallel.threads=2", "pipeline_parallel.threads=3", "parallelism.recompute_layer=true",
          "pipeline_parallel.partition=[1,7]", "pipeline_parallel.partition=[5,3]",
          "pipeline_parallel.partition=nanotron"})
      expect_bits(dtype + " pp=2 " + change, train(tiny({type, change, "parallelism.pp=2"})), expected);
  }
}

TEST_F(exactness, OfAResumeAtAnyPointWithAnotherLayout) {
  for (const std::string dtype : {"float32", "bfloat16"}) {
    const std::string type = "model.dtype=" + dtype;
    const Run straight = train(tiny({type, "tokens.train_steps=6"}));
    for (const int stop : {1, 2, 4}) {
      SCOPED_TRACE(fmt::format("{} stopped after {}", dtype, stop));
      TrainerOptions options;
      options.run_dir = (folder_ / fmt::format("resumed{}{}", dtype, stop)).string();
      std::uint64_t asked = 0;
      options.stop_requested = [&] { return ++asked == static_cast<std::uint64_t>(stop); };
      const Run first = train(tiny({type, "tokens.train_steps=6", "parallelism.pp=2"}), options);
      EXPECT_EQ(first.result.exit_reason, "stopped");
      EXPECT_EQ(first.result.steps, static_cast<std::uint64_t>(stop));
      options.stop_requested = nullptr;
      options.resume = "latest";
      const Run rest =
          train(tiny({type, "tokens.train_steps=6", "parallelism.pp=4", "pipeline_parallel.schedule=zb_h1",
                      "pipeline_parallel.partition=[1,3,2,2]"}),
                options);
      expect_bits(fmt::format("{} resumed after step {}", dtype, stop), rest, straight);
      EXPECT_EQ(rest.metrics.size(), 6u) << "no step stands twice in the metrics";
    }
  }
}

}  // namespace
}  // namespace weft
