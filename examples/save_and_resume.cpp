// Saving, and going on later with another number of ranks and the same bits. Trains four dense layers with
// AdamW up to step STEPS, from the newest checkpoint in FOLDER where there is one, and saves there.
//
//   weft launch -n 2 -- ./save_and_resume FOLDER 10 2      two processes, steps 1 to 10
//   ./save_and_resume FOLDER 20 1                          one rank, steps 11 to 20
#include <cstdio>
#include <cstdlib>
#include <exception>

#include <weft/actors/pipeline.h>
#include <weft/model/optimizer/adamw.h>
#include <weft/training/checkpoint/checkpoint_search.h>
#include <weft/training/checkpoint/pipeline_checkpoint.h>

#include "dense_stage.h"

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::fprintf(stderr, "usage: save_and_resume FOLDER STEPS RANKS\n");
    return 2;
  }
  const std::string folder = argv[1];
  const auto steps = static_cast<std::uint64_t>(std::atol(argv[2]));

  weft::PipelineConfig config;
  config.schedule = "interleaved_1f1b";
  config.ranks = static_cast<std::uint32_t>(std::atol(argv[3]));
  config.chunks = 4 / config.ranks;  // four layers, whatever the number of ranks
  config.microbatches = 8;
  config.stages = example::make_dense_stage;
  config.optimizer = [] {
    weft::AdamWConfig adamw;
    adamw.learning_rate = [](std::uint64_t) { return 0.01; };
    return std::make_unique<weft::AdamWOptimizer>(adamw);
  };
  weft::Pipeline pipeline(std::move(config));

  if (!weft::list_checkpoints(folder).found.empty()) weft::load_checkpoint(pipeline, folder);
  double loss = 0;
  while (pipeline.steps() < steps) {
    example::Batch batch(pipeline.steps() + 1, 8);
    loss = pipeline.step(batch.inputs, batch.targets).loss;
  }
  weft::save_checkpoint(pipeline, folder);

  if (pipeline.has_last_stage())
    std::printf("step %d  loss %.17g\n", static_cast<int>(pipeline.steps()), loss);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "save_and_resume: %s\n", e.what());
  return 1;
}
