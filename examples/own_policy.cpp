// A policy of one's own: backward first, else forward as long as there is a slot. It reacts to whatever has
// arrived, and the numbers are nevertheless those of any other schedule, since weight gradients are added in
// micro-batch order.
#include <cstdio>
#include <exception>

#include <weft/actors/pipeline.h>

#include "dense_stage.h"

namespace {

/// For one stage per rank. Looks at the micro-batches from the oldest on, so the oldest one always moves and
/// nothing can lock up.
class EagerBackward final : public weft::Policy {
 public:
  void begin_step(std::uint64_t, weft::Phase) override {}

  weft::Decision choose(const weft::RankView& view) override {
    const std::uint16_t stage = view.stages().front();
    for (std::uint32_t k = 0; k < view.microbatches(); ++k) {
      const weft::Op backward{k, stage, weft::OpKind::backward};
      if (!view.issued(backward) && view.inputs_ready(backward)) return weft::Decision::run(backward);
    }
    for (std::uint32_t k = 0; k < view.microbatches() && view.free_slots() > 0; ++k) {
      const weft::Op forward{k, stage, weft::OpKind::forward};
      if (view.issued(forward)) continue;
      // Only the oldest micro-batch not begun may take a slot: a younger one could keep it from the oldest
      // for ever.
      if (view.inputs_ready(forward)) return weft::Decision::run(forward);
      break;
    }
    return weft::Decision::wait();
  }
};

double last_loss(bool own_policy) {
  weft::PipelineConfig config;
  config.schedule = "1f1b";
  config.ranks = 3;
  config.microbatches = 8;
  config.stages = example::make_dense_stage;
  config.optimizer = [] { return std::make_unique<example::GradientDescent>(); };
  if (own_policy)
    config.policy = [](const weft::Schedule&, std::uint32_t) { return std::make_unique<EagerBackward>(); };
  weft::Pipeline pipeline(std::move(config));
  double loss = 0;
  for (std::uint64_t step = 1; step <= 20; ++step) {
    example::Batch batch(step, 8);
    loss = pipeline.step(batch.inputs, batch.targets).loss;
  }
  return loss;
}

}  // namespace

int main() try {
  const double own = last_loss(true);
  const double schedule = last_loss(false);
  std::printf("own policy %.17g\n1F1B       %.17g\n%s\n", own, schedule,
              own == schedule ? "the same bits" : "DIFFERENT");
  return own == schedule ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "own_policy: %s\n", e.what());
  return 1;
}
