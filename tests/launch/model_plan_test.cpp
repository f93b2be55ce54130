#include "weft/launch/model_plan.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <string>
#include <thread>

#include "weft/base/cores.h"
#include "weft/training/config/load.h"
#include "weft/training/configured_schedule.h"

namespace weft {
namespace {

std::uint64_t planned_bytes(const std::string& threads) {
  const std::string text =
      "model:\n  dtype: float32\n  init_method: {std: 0.02}\n  model_config: {hidden_size: 16, "
      "intermediate_size: 32, num_hidden_layers: 4, num_attention_heads: 2, vocab_size: 256}\n"
      "parallelism: {pp: 1}\npipeline_parallel: {threads: " +
      threads +
      "}\ntokens: {micro_batch_size: 1, batch_accumulation_per_replica: 4, sequence_length: 64, train_steps: "
      "3}\ndata_stages: [{name: random, start_training_step: 1, data: {}}]\n"
      "optimizer: {optimizer_factory: {name: adamW}, learning_rate_scheduler: {learning_rate: 0.001}}\n";
  const NanotronConfig config = parse_config(text, "c.yaml").config;
  return pipeline_of_model(config, configured_schedule(config)).memory(0).total();
}

TEST(PipelineOfModel, TakesAsManyThreadsAsTheRun) {
  EXPECT_EQ(planned_bytes("auto"), planned_bytes(std::to_string(usable_cores())));
  std::uint64_t bound = 0;
  std::thread([&] {
    cpu_set_t all;
    sched_getaffinity(0, sizeof(all), &all);
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof(one), &one);
    bound = planned_bytes("auto");
  }).join();
  EXPECT_EQ(bound, planned_bytes("1"));
}

}  // namespace
}  // namespace weft
