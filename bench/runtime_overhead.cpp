// What the runtime itself costs: ops that do nothing, messages of 64 bytes. Prints microseconds per op
// (receive, choose, run an empty stage, send) and rank.
//
//   weft launch -n 2 -- build/release/bench/runtime_overhead     two processes over shared memory
//   build/release/bench/runtime_overhead                         two threads
#include <algorithm>
#include <cstdio>
#include <exception>
#include <vector>

#include "weft/actors/pipeline.h"
#include "weft/base/clock.h"
#include "weft/bench/no_optimizer.h"

namespace {

using namespace weft;

class EmptyStage final : public Stage {
 public:
  EmptyStage(std::uint16_t stage, std::uint16_t stages) : first_(stage == 0), last_(stage + 1 == stages) {}
  StagePlan plan(const ShapeList&) override {
    StagePlan plan;
    if (!last_) plan.outputs.push_back({DType::float32, Shape{16}});
    return plan;
  }
  void allocate(Arena&, Queue&) override {}
  std::span<Parameter> parameters() override { return {}; }
  Task<StageOutput> forward(MicrobatchContext& context) override {
    StageOutput output;
    if (!last_) output.tensors.push_back(context.allocate(0, DType::float32, Shape{16}));
    co_return output;
  }
  Task<StageOutput> backward_input(MicrobatchContext& context, TensorList) override {
    StageOutput output;
    if (!first_) output.tensors.push_back(context.allocate(0, DType::float32, Shape{16}));
    co_return output;
  }
  Task<void> backward_weight(MicrobatchContext&) override { co_return; }

 private:
  bool first_;
  bool last_;
};

}  // namespace

int main() try {
  constexpr std::uint32_t microbatches = 1000;
  PipelineConfig config;
  config.ranks = 2;
  config.microbatches = microbatches;
  config.stages = [](std::uint16_t stage, std::uint16_t stages) {
    return std::make_unique<EmptyStage>(stage, stages);
  };
  config.optimizer = [] { return std::make_unique<NoOptimizer>(); };
  Pipeline pipeline(std::move(config));
  float nothing[16] = {};
  std::vector<TensorList> data(microbatches);
  for (TensorList& list : data)
    list.push_back(Tensor(Buffer::borrowed(reinterpret_cast<std::byte*>(nothing), sizeof(nothing)),
                          DType::float32, Shape{16}));
  std::vector<double> micros;
  for (int step = 0; step < 30; ++step) {
    const Nanoseconds start = now_ns();
    pipeline.step(data, data);
    micros.push_back(static_cast<double>(now_ns() - start) * 1e-3 / (2 * microbatches));
  }
  std::sort(micros.begin(), micros.end());
  if (pipeline.rank() == 0)
    std::printf(
        "%.2f us per op and rank (median of %zu steps of %u micro-batches, 1F1B, 2 ranks; best %.2f)\n",
        micros[micros.size() / 2], micros.size(), microbatches, micros[0]);
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "runtime_overhead: %s\n", e.what());
  return 1;
}
