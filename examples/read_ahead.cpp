// A stage that awaits something of its own: the first stage's rows come from a file, which another thread
// reads while the rank goes on with other ops. The numbers are those of the same rows in memory.
#include <unistd.h>

#include <condition_variable>
#include <cstdio>
#include <deque>
#include <exception>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <thread>

#include <weft/actors/pipeline.h>
#include <weft/base/error.h>

#include "dense_stage.h"

namespace {

using example::Batch;
using example::DenseStage;

constexpr std::uint32_t microbatches = 8;
constexpr std::uint64_t steps = 10;
constexpr std::size_t record = DenseStage::most_rows * DenseStage::width;  // floats of a micro-batch

/// Reads records of a file on a thread of its own.
class Reader {
 public:
  explicit Reader(const std::string& path) : file_(path, std::ios::binary), thread_([this] { work(); }) {}
  ~Reader() {  // what is still asked for is never completed, and nobody waits for it any more
    {
      const std::scoped_lock lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }
  /// Fills `into` with record number `number` and completes `there`.
  void read(std::uint64_t number, std::vector<float>& into, const weft::Completion& there) {
    const std::scoped_lock lock(mutex_);
    wanted_.push_back({number, &into, there});
    changed_.notify_all();
  }

 private:
  struct Wanted {
    std::uint64_t number;
    std::vector<float>* into;
    weft::Completion there;
  };
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || !wanted_.empty(); });
      if (ended_) return;
      const Wanted next = wanted_.front();
      wanted_.pop_front();
      lock.unlock();
      file_.seekg(static_cast<std::streamoff>(next.number * record * sizeof(float)));
      file_.read(reinterpret_cast<char*>(next.into->data()), record * sizeof(float));
      if (file_)
        next.there.complete();
      else
        next.there.fail(std::make_exception_ptr(weft::Error("the file of rows cannot be read")));
      lock.lock();
    }
  }
  std::ifstream file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Wanted> wanted_;
  bool ended_ = false;
  std::thread thread_;
};

/// A dense layer whose input comes from the reader.
class ReadingStage final : public weft::Stage {
 public:
  ReadingStage(std::uint16_t stages, const std::string& path)
      : dense_(0, stages),
        rows_(microbatches, std::vector<float>(record)),
        inputs_(microbatches),
        reader_(path) {}

  weft::StagePlan plan(const weft::ShapeList& input) override {
    weft::StagePlan plan = dense_.plan(input);
    plan.ops_beside = 4;  // so many ops may wait for the file while the rank runs others
    return plan;
  }
  void allocate(weft::Arena& state, weft::Queue& queue) override { dense_.allocate(state, queue); }
  std::span<weft::Parameter> parameters() override { return dense_.parameters(); }

  weft::Task<weft::StageOutput> forward(weft::MicrobatchContext& context) override {
    const std::uint32_t k = context.microbatch;
    const weft::Completion there = context.completion();
    reader_.read((context.step - 1) * microbatches + k, rows_[k], there);
    co_await there;
    inputs_[k] = Batch::view(rows_[k], Batch::rows_of(context.step, k));
    context.inputs = &inputs_[k];  // for this micro-batch's backward ops as well
    weft::StageOutput output = co_await dense_.forward(context);
    co_return output;
  }
  weft::Task<weft::StageOutput> backward_input(weft::MicrobatchContext& context,
                                               weft::TensorList output_gradient) override {
    return dense_.backward_input(context, std::move(output_gradient));
  }
  weft::Task<void> backward_weight(weft::MicrobatchContext& context) override {
    return dense_.backward_weight(context);
  }

 private:
  DenseStage dense_;
  std::vector<std::vector<float>> rows_;
  std::vector<weft::TensorList> inputs_;
  Reader reader_;  // last: its thread ends before the memory goes that it writes to
};

void write_rows(const std::string& path) {
  std::ofstream file(path, std::ios::binary);
  for (std::uint64_t step = 1; step <= steps; ++step) {
    Batch batch(step, microbatches);
    for (std::uint32_t k = 0; k < microbatches; ++k) {
      std::vector<float> rows = batch.values[2 * k];
      rows.resize(record);
      file.write(reinterpret_cast<const char*>(rows.data()), record * sizeof(float));
    }
  }
}

double last_loss(const std::string& path) {
  weft::PipelineConfig config;
  config.schedule = "1f1b";
  config.ranks = 3;
  config.microbatches = microbatches;
  config.optimizer = [] { return std::make_unique<example::GradientDescent>(); };
  config.stages = [path](std::uint16_t stage, std::uint16_t stages) -> std::unique_ptr<weft::Stage> {
    if (stage == 0 && !path.empty()) return std::make_unique<ReadingStage>(stages, path);
    return example::make_dense_stage(stage, stages);
  };
  weft::Pipeline pipeline(std::move(config));
  double loss = 0;
  for (std::uint64_t step = 1; step <= steps; ++step) {
    Batch batch(step, microbatches);
    if (!path.empty()) batch.inputs = std::vector<weft::TensorList>(microbatches);  // they are in the file
    loss = pipeline.step(batch.inputs, batch.targets).loss;
  }
  return loss;
}

}  // namespace

int main() try {
  const auto path = std::filesystem::temp_directory_path() / ("weft-rows-" + std::to_string(getpid()));
  write_rows(path);
  const double from_file = last_loss(path);
  std::filesystem::remove(path);
  const double from_memory = last_loss("");
  std::printf("from a file %.17g\nfrom memory %.17g\n%s\n", from_file, from_memory,
              from_file == from_memory ? "the same bits" : "DIFFERENT");
  return from_file == from_memory ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "read_ahead: %s\n", e.what());
  return 1;
}
