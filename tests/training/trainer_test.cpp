// Whole trainings in this process: the golden Llamas, resume, evaluation, traces. What must give equal bits
// is in exactness_test.cpp.
#include "weft/training/trainer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "../support/one_rank_launcher.h"
#include "../support/paths.h"
#include "trainer_fixture.h"
#include "weft/actors/rank.h"
#include "weft/base/error.h"
#include "weft/model/weights/safetensors.h"
#include "weft/scheduling/orders/schedule.h"
#include "weft/scheduling/simulation/chrome_trace.h"
#include "weft/scheduling/simulation/trace_analysis.h"
#include "weft/scheduling/weight_turns.h"
#include "weft/tests/transport/process_group.h"
#include "weft/training/checkpoint/reader.h"
#include "weft/training/checkpoint/snapshot_writer.h"
#include "weft/training/configured_schedule.h"
#include "weft/transport/inproc/inproc_transport.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using test::read_json;
using TrainerTest = test::TrainerTest;

TEST_F(TrainerTest, AnyNumberOfMicrobatchesWorksAndPeaksAreThePromisedOnes) {
  for (const int m : {1, 2, 3, 9})
    for (const std::string schedule : {"afab", "1f1b"}) {
      const Run run =
          train(tiny({fmt::format("tokens.batch_accumulation_per_replica={}", m), "parallelism.pp=4",
                      "tokens.train_steps=2", "pipeline_parallel.schedule=" + schedule}));
      for (const json& line : run.metrics)
        for (int r = 0; r < 4; ++r)
          EXPECT_EQ(line["peak_in_flight"][r], schedule == "afab" ? m : std::min(m, 4 - r));
    }
}

TEST_F(TrainerTest, RecomputationHoldsFewerBytes) {
  const Run plain = train(tiny({"tokens.train_steps=1"}));
  const Run again = train(tiny({"tokens.train_steps=1", "parallelism.recompute_layer=true"}));
  EXPECT_LT(again.metrics[0]["peak_activation_bytes"][0], plain.metrics[0]["peak_activation_bytes"][0]);
}

TEST_F(TrainerTest, TheTraceHoldsThePlannedOrder) {
  for (const ScheduleInfo& schedule : all_schedules()) {
    if (schedule.dynamic) continue;
    SCOPED_TRACE(schedule.name);
    const NanotronConfig config = tiny({fmt::format("pipeline_parallel.schedule={}", schedule.name),
                                        "parallelism.pp=4", "tokens.train_steps=2"});
    TrainerOptions options;
    options.trace = "trace.json";
    const Run run = train(config, options);
    std::ifstream file(run.result.folder / "trace.json");
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const auto events = from_chrome_trace(text).events;
    for (const std::uint32_t step : {1u, 2u})
      EXPECT_EQ(executed_order(events_of_step(events, step), 4), as_run(configured_schedule(config).order))
          << "step " << step;
  }
}

TEST_F(TrainerTest, TrainsSavesAndResumesWhicheverStagesRankZeroOwns) {
  const fs::path order = folder_ / "middle.csv";
  std::ofstream(order) << "1F0,1B0,1F1,1B1\n0F0,0F1,0B0,0B1\n2F0,2B0,2F1,2B1\n";
  const auto config = [&](int steps) {
    return tiny({"pipeline_parallel.schedule=" + order.string(), "parallelism.pp=3",
                 "tokens.batch_accumulation_per_replica=2", "checkpoints.save_final_state=true",
                 "checkpoints.checkpoint_interval=1", fmt::format("tokens.train_steps={}", steps)});
  };
  const Run whole = train(config(3));
  TrainerOptions options;
  options.run_dir = (folder_ / "parts").string();
  train(config(2), options);
  options.resume = "latest";
  EXPECT_EQ(train(config(3), options).result.weights_sha256, whole.result.weights_sha256);
}

TEST_F(TrainerTest, ThePlanKnowsTheCopyForCheckpoints) {
  for (const std::uint32_t ranks : {1U, 2U})
    for (const std::string dtype : {"float32", "bfloat16"}) {
      const NanotronConfig config =
          tiny({fmt::format("parallelism.pp={}", ranks), "model.dtype=" + dtype});  // with a tied weight
      const StageFactory stages = Llama(config).stages(std::vector<std::uint32_t>(ranks, 8 / ranks), 1);
      const OptimizerFactory optimizer = configured_optimizer(config)->factory(1);
      const PipelinePlan plan = plan_pipeline(configured_schedule(config), stages, optimizer);
      const auto transports = make_inproc_transports(ranks);
      for (std::uint32_t number = 0; number < ranks; ++number) {
        Rank rank(number, plan, stages, optimizer, *transports[number], {});
        const auto states = rank.optimizer().state();
        EXPECT_EQ(plan.memory(number).checkpoint_copy,
                  SnapshotWriter::snapshot_bytes(rank.parameters(), states));
      }
    }
}

/// The configured optimizer, slow to end.
class SlowOptimizer final : public OptimizerDescription {
 public:
  SlowOptimizer(const NanotronConfig& config, test::Gate& gate) : inner_(config), gate_(gate) {}
  OptimizerFactory factory(int threads) const override {
    return [make = inner_.factory(threads), &gate = gate_] {
      return std::make_unique<test::SlowToEnd>(make(), gate);
    };
  }

 private:
  AdamW inner_;
  test::Gate& gate_;
};

TEST_F(TrainerTest, ARankTellsItsLauncherTheCauseBeforeItEnds) {
  const NanotronConfig config = tiny();
  const auto endings = test::run_processes(1, [&](std::uint32_t, const ByteExchange&) {
    test::Gate gate;
    const std::string told = test::told_by(gate, [&] {
      TrainerOptions options;
      options.run_dir = (folder_ / "run").string();
      const Llama model(config);
      const SlowOptimizer optimizer(config, gate);
      Trainer(config, model, optimizer, options).fit();
    });
    if (told != "rank 0 failed: no update today") throw Error("told: '" + told + "'");
  });
  EXPECT_EQ(test::first_error(endings), "");
  EXPECT_EQ(read_json(folder_ / "run/result.json")["message"], "no update today");
}

TEST_F(TrainerTest, KeepLastKeepsTheNewest) {
  const Run run = train(tiny({"checkpoints.checkpoint_interval=1", "checkpoints.keep_last=2",
                              "checkpoints.save_final_state=true", "checkpoints.save_initial_state=true"}));
  std::set<std::string> left;
  for (const auto& entry : fs::directory_iterator(run.result.folder / "checkpoints"))
    if (entry.is_directory()) left.insert(entry.path().filename());
  EXPECT_EQ(left, (std::set<std::string>{"step-00000003", "step-00000004"}));
}

TEST_F(TrainerTest, EvaluationReportsALossAndChangesNothing) {
  const Run plain = train(tiny({"parallelism.pp=4"}));
  const Run run =
      train(tiny({"parallelism.pp=4", "tokens.val_check_interval=2", "tokens.limit_val_batches=1"}));
  EXPECT_EQ(run.bits(), plain.bits());
  EXPECT_FALSE(run.metrics[0].contains("val_loss"));
  EXPECT_GT(run.metrics[1]["val_loss"], 1.0);
  EXPECT_EQ(
      run.metrics[1]["val_loss"],
      train(tiny({"tokens.val_check_interval=2", "tokens.limit_val_batches=1"})).metrics[1]["val_loss"]);
}

TEST_F(TrainerTest, TextHoldsOutItsLastWindowsForEvaluation) {
  std::ofstream(folder_ / "text.txt") << std::string(9 * 16 * 40, 'a');
  const std::string data =
      fmt::format("data_stages.0.data.dataset={{text_files: [\"{}\"]}}", (folder_ / "text.txt").string());
  const Run run = train(tiny(
      {data, "tokens.val_check_interval=1", "model.model_config.vocab_size=256", "tokens.train_steps=2"}));
  EXPECT_GT(run.metrics[1]["val_loss"], 0.0);
}

TEST_F(TrainerTest, ALossThatIsNotFiniteEndsTheRun) {
  const auto diverging = tiny({"optimizer.learning_rate_scheduler.learning_rate=1e30",
                               "optimizer.learning_rate_scheduler.min_decay_lr=1e30", "parallelism.pp=2"});
  EXPECT_THROW(train(diverging), NonFiniteError);
}

TEST_F(TrainerTest, ACapOfSlotsBoundsStaticOrdersToo) {
  EXPECT_THROW(train(tiny({"parallelism.pp=4", "pipeline_parallel.max_in_flight=2"})), ConfigError);
  EXPECT_NO_THROW(train(tiny({"parallelism.pp=4", "pipeline_parallel.max_in_flight=4"})));
}

TEST_F(TrainerTest, ARunFolderThatHoldsARunIsRefused) {
  TrainerOptions options;
  options.run_dir = (folder_ / "twice").string();
  train(tiny(), options);
  EXPECT_THROW(train(tiny(), options), ConfigError);
}

// The golden runs, as a user would do them: weights from a Hugging Face folder, tokens from a flat file.
class GoldenLlama : public TrainerTest, public testing::WithParamInterface<std::string> {};

TEST_P(GoldenLlama, TenStepsGiveHuggingFacesNumbersAtEveryPartition) {
  const fs::path golden = fs::path(weft::test::data_dir()) / "llama" / GetParam();
  const SafetensorsFile file(golden / "golden.safetensors");
  const SafetensorsFile initial(golden / "model.safetensors");
  const json expected = read_json(golden / "golden.json");
  const StoredTensor& tokens = file.at("tokens");
  std::ofstream(folder_ / "tokens.bin", std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.bytes.data()),
             static_cast<std::streamsize>(tokens.bytes.size()));
  const std::string text = fmt::format(
      "general: {{run: golden, seed: 1}}\n"
      "parallelism: {{dp: 1, pp: 1, tp: 1}}\n"
      "model: {{dtype: float32, init_method: {{path: \"{}\"}}}}\n"
      "tokens: {{sequence_length: {}, train_steps: 10, micro_batch_size: {}, batch_accumulation_per_replica: "
      "{}}}\n"
      "data_stages: [{{name: t, start_training_step: 1, data: {{dataset: {{token_file: \"{}\", "
      "token_size_in_bytes: 4, shuffle: false}}}}}}]\n"
      "optimizer:\n"
      "  optimizer_factory: {{name: adamW, adam_beta1: 0.9, adam_beta2: 0.95, adam_eps: 1e-8}}\n"
      "  learning_rate_scheduler: {{learning_rate: 0.003, lr_warmup_steps: 2, lr_warmup_style: linear, "
      "lr_decay_style: cosine,"
      " lr_decay_steps: 8, min_decay_lr: 1e-5}}\n"
      "  weight_decay: 0.01\n  clip_grad: 1.0\n"
      "logging: {{iteration_step_info_interval: 1000, log_level: warning}}\n"
      "checkpoints: {{save_final_state: true}}\n",
      golden.string(), expected["sequence_length"].get<int>(), expected["micro_batch_size"].get<int>(),
      expected["micro_batches"].get<int>(), (folder_ / "tokens.bin").string());

  std::set<std::string> all_bits;
  const auto layers = with(text, {}).model.model_config.num_hidden_layers;
  for (const ScheduleInfo& schedule : all_schedules())
    for (std::int64_t pp = 1; pp <= 4; ++pp) {
      if (pp * schedule.default_chunks > layers) continue;
      if (schedule.name == "dualpipe_v" && expected["micro_batches"] < 2 * pp) continue;
#ifdef __SANITIZE_ADDRESS__
      if (pp != 2) continue;  // the rest runs in Release; here it would take minutes
#endif
      SCOPED_TRACE(fmt::format("{} pp={}", schedule.name, pp));
      const Run run = train(with(text, {fmt::format("pipeline_parallel.schedule={}", schedule.name),
                                        fmt::format("parallelism.pp={}", pp)}));
      const bool first = all_bits.empty();
      all_bits.insert(run.bits());
      if (!first) continue;  // the same bits need no second look
      for (std::size_t i = 0; i < 10; ++i) {
        const json& step = expected["steps"][i];
        EXPECT_NEAR(run.metrics[i]["loss"].get<double>(), step["loss"].get<double>(), 1e-5);
        EXPECT_NEAR(run.metrics[i]["grad_norm"].get<double>() / step["grad_norm"].get<double>(), 1.0, 1e-4);
        EXPECT_NEAR(run.metrics[i]["lr"].get<double>(), step["lr"].get<double>(), 1e-15);
      }
      const CheckpointReader saved(run.result.folder / "checkpoints" / "step-00000010");
      for (const StoredTensor* tensor : saved.weights()) {
        const auto at = [](const StoredTensor& t, std::size_t k) {
          return reinterpret_cast<const float*>(t.bytes.data())[k];
        };
        const StoredTensor& want = file.at("param.step10." + tensor->name);
        const StoredTensor& begin = initial.at(tensor->name);
        const std::size_t n = tensor->bytes.size() / sizeof(float);
        double change = 0;
        for (std::size_t k = 0; k < n; ++k)
          change = std::max(change, std::abs(double{at(want, k)} - at(begin, k)));
        std::size_t far = 0;
        for (std::size_t k = 0; k < n; ++k) {
          const double off = std::abs(double{at(want, k)} - at(*tensor, k)) / change;
          far += off > 1e-4;
          EXPECT_LE(off, 1e-2) << tensor->name << " " << k;
        }
        EXPECT_LE(static_cast<double>(far), 1e-3 * static_cast<double>(n)) << tensor->name;
      }
    }
  EXPECT_EQ(all_bits.size(), 1u) << "some schedule or number of ranks gave other bits";
}

INSTANTIATE_TEST_SUITE_P(EveryModel, GoldenLlama, testing::Values("mha_tied", "gqa_untied", "deep_gqa"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace weft
