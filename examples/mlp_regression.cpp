// A pipeline that has nothing to do with language: a regression through three dense layers, one per rank.
//
//   ./mlp_regression                          all ranks are threads of this process
//   weft launch -n 3 -- ./mlp_regression      one process per rank, messages over UCX
//
// Both print the same numbers, to the last bit.
#include <cstdio>
#include <exception>

#include <weft/actors/pipeline.h>

#include "dense_stage.h"

int main() try {
  weft::PipelineConfig config;
  config.schedule = "1f1b";
  config.ranks = 3;
  config.microbatches = 8;
  config.stages = example::make_dense_stage;
  config.optimizer = [] { return std::make_unique<example::GradientDescent>(); };
  weft::Pipeline pipeline(std::move(config));

  for (std::uint64_t step = 1; step <= 100; ++step) {
    example::Batch batch(step, 8);
    const weft::StepReport report = pipeline.step(batch.inputs, batch.targets);
    if (pipeline.has_last_stage() && (step == 1 || step % 25 == 0))
      std::printf("step %3d  loss %.9f  gradient norm %.9f\n", static_cast<int>(step), report.loss,
                  report.gradient_norm);
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "mlp_regression: %s\n", e.what());
  return 1;
}
