// How runs go on from checkpoints, and what is refused before anything is made: whole trainings in this
// process.
#include "weft/training/resume.h"
#include "weft/training/given_weights.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "event_files.h"
#include "trainer_fixture.h"
#include "weft/base/error.h"
#include "weft/base/files/folder_lock.h"
#include "weft/training/checkpoint/convert.h"
#include "weft/training/checkpoint/reader.h"
#include "weft/training/start_checks.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using test::read_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class ResumeTest : public test::TrainerTest {
 protected:
  TrainerOptions in(const std::string& name, const std::string& resume = "") {
    TrainerOptions options;
    options.run_dir = path(name);
    options.resume = resume;
    return options;
  }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Names, sizes, times and contents of everything below the test's folder.
  std::string everything() const {
    std::vector<std::string> lines;
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      std::string line = entry.path().string();
      if (entry.is_regular_file()) {
        std::ifstream file(entry.path());
        line += fmt::format(" {} ", entry.last_write_time().time_since_epoch().count());
        line.append(std::istreambuf_iterator<char>(file), {});
      }
      lines.push_back(std::move(line));
    }
    std::sort(lines.begin(), lines.end());
    return fmt::format("{}", fmt::join(lines, "\n"));
  }

  /// What checking says before the start; empty when it says nothing. It makes and changes nothing.
  std::string refusal(const NanotronConfig& config, const TrainerOptions& options) {
    const std::string before = everything();
    std::string problem;
    try {
      check_training(config, options);
    } catch (const ConfigError& e) {
      problem = e.what();
    }
    EXPECT_EQ(everything(), before);
    return problem;
  }
  std::string log_of(const std::string& name) {
    std::ifstream file(log_file(path(name), 0));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  const std::vector<std::string> saves_ = {"checkpoints.save_final_state=true",
                                           "checkpoints.checkpoint_interval=2", "logging.log_level=info"};
  std::vector<std::string> saving(std::vector<std::string> more = {}) const {
    more.insert(more.begin(), saves_.begin(), saves_.end());
    return more;
  }
};

TEST_F(ResumeTest, NothingToResumeFromIsToldApartAndLeavesNothing) {
  EXPECT_THAT(refusal(tiny(), in("fresh", "latest")), StartsWith("--resume: latest: there is no checkpoint"));
  EXPECT_EQ(train(tiny(), in("fresh", "auto")).result.steps, 4u) << "auto begins at step 1";
}

TEST_F(ResumeTest, AFinishedRunSaysSoAndChangesNothing) {
  const Run first = train(tiny(saving()), in("done"));
  const std::string before = everything();
  for (const std::string& resume : {std::string("auto"), std::string("latest"), path("done")}) {
    const auto other = tiny(saving({"optimizer.weight_decay=0.5", "tokens.train_steps=3"}));
    EXPECT_EQ(train(other, in("done", resume)).result.weights_sha256, first.result.weights_sha256);
    EXPECT_EQ(everything(), before) << resume;
  }
  for (const bool failed : {false, true}) {
    fs::remove(result_file(path("done")));
    if (failed) std::ofstream(result_file(path("done"))) << R"({"steps": 4, "exit_reason": "failed"})";
    train(tiny(saving({"parallelism.pp=2"})), in("done", "auto"));
    EXPECT_EQ(read_json(result_file(path("done")))["weights_sha256"], first.result.weights_sha256);
  }
  EXPECT_EQ(hash_weights(CheckpointReader(folder_ / "done" / "checkpoints" / "step-00000004")).sha256,
            first.result.weights_sha256);
}

/// Every record of a run's steps holds these ones, and the same values.
void expect_same_records(const fs::path& run, std::uint64_t steps) {
  test::EventScalars expected;
  std::uint64_t next = 1;
  for (const auto& line : test::read_lines(metrics_file(run))) {
    EXPECT_EQ(line["step"], next);
    for (const char* tag :
         {"loss", "grad_norm", "lr", "step_ms", "tokens_per_sec", "model_tflops", "val_loss"})
      if (line.contains(tag)) expected[tag][next] = static_cast<float>(line[tag].get<double>());
    ++next;
  }
  EXPECT_EQ(next - 1, steps);
  EXPECT_EQ(expected.at("val_loss").size(), steps / 2);
  EXPECT_EQ(test::EventFiles(run).scalars(), expected);
}

TEST_F(ResumeTest, AllRecordsOfARunGoBackTogether) {
  const auto config = [&](int steps) {
    return tiny(saving({fmt::format("tokens.train_steps={}", steps), "tokens.val_check_interval=2",
                        "checkpoints.save_final_state=false",
                        "data_stages=[{name: text, start_training_step: 1, data: {seed: 3, dataset: "
                        "{text_files: [" +
                            path("text") + "]}}}]",
                        "tokenizer={tokenizer_name_or_path: byte}", "model.model_config.vocab_size=256"}));
  };
  std::ofstream(path("text")) << std::string(4000, 'x');
  train(config(5), in("run"));  // the last checkpoint is of step 4
  expect_same_records(path("run"), 5);

  train(config(7), in("run", "latest"));  // step 5 again
  expect_same_records(path("run"), 7);

  train(config(7), in("run", path("run") + "/checkpoints/step-00000002"));
  expect_same_records(path("run"), 7);

  // A crash while step 8 was written: halves of both records.
  const auto half = [](const fs::path& file) { std::ofstream(file, std::ios::app) << R"({"step":8,"lo)"; };
  half(metrics_file(path("run")));
  fs::path newest;
  for (const auto& entry : fs::directory_iterator(path("run")))
    if (entry.path().filename().string().find("tfevents") != std::string::npos)
      newest = std::max(newest, entry.path());
  std::ifstream events(newest, std::ios::binary);
  std::string record(20, ' ');
  events.read(record.data(), 20);
  std::ofstream(newest, std::ios::app | std::ios::binary) << record;
  train(config(8), in("run", "latest"));
  expect_same_records(path("run"), 8);
}

TEST_F(ResumeTest, AWrongPlaceIsFoundBeforeAnythingIsMade) {
  std::ofstream(folder_ / "file") << "x";
  fs::create_directories(folder_ / "empty");
  const std::string key = "checkpoints.resume_checkpoint_path";
  struct Case {
    std::string run;
    std::string resume;
    std::vector<std::string> changes;
    std::string problem;
  };
  const Case cases[] = {
      {"new", path("nope"), {}, "--resume: " + path("nope") + ": does not exist"},
      {"new", path("file"), {}, "--resume: " + path("file") + ": is neither a checkpoint nor"},
      {"new", path("empty"), {}, "--resume: " + path("empty") + ": holds no checkpoint"},
      {"new", "", {key + "=" + path("nope")}, key + ": " + path("nope") + ": does not exist"},
      {"new", "auto", {key + "=" + path("nope")}, key + ": " + path("nope") + ": does not exist"},
      {"file", "", {}, "--run-dir: " + path("file") + ": is not a folder"},
      {"file/below", "", {}, "--run-dir: " + path("file/below") + ": " + path("file") + " is not a folder"},
      {"new", "", {"checkpoints.checkpoints_path=" + path("file")}, "checkpoints_path: " + path("file")},
      {"new",
       "",
       {"checkpoints.checkpoints_path=/proc/nope"},
       "checkpoints_path: /proc/nope: cannot be made"},
  };
  for (const Case& one : cases)
    EXPECT_THAT(refusal(tiny(one.changes), in(one.run, one.resume)), HasSubstr(one.problem));
  TrainerOptions proc;
  proc.run_dir = "/proc/nope";
  EXPECT_THAT(refusal(tiny(), proc), HasSubstr("--run-dir: /proc/nope: cannot be made"));
}

TEST_F(ResumeTest, AFolderThatAnotherRunUsesIsRefused) {
  train(tiny(saving({"tokens.train_steps=2"})), in("live"));
  const auto more = tiny(saving());
  const std::string theirs = "checkpoints.checkpoints_path=" + path("live/checkpoints");
  {
    const FolderLock lock(path("live"));
    EXPECT_THAT(refusal(more, in("live", "auto")), HasSubstr("another run is using this folder"));
  }
  {
    // in the folder of checkpoints, too, also when it lies in the run's own folder
    const RunFolder live(more, {path("live"), true});
    EXPECT_THAT(refusal(tiny({theirs}), in("second", "auto")),
                AllOf(HasSubstr("checkpoints.checkpoints_path"), HasSubstr("another run is using")));
    EXPECT_THROW(RunFolder(tiny({theirs}), {path("second"), false}), CheckpointError);
  }
  EXPECT_EQ(refusal(tiny({theirs}), in("third", "auto")), "");
}

TEST_F(ResumeTest, ANewRunOverwritesNoCheckpoints) {
  train(tiny(saving()), in("old"));
  const std::string there = "checkpoints.checkpoints_path=" + path("old/checkpoints");
  EXPECT_THAT(refusal(tiny({there}), in("new")),
              AllOf(StartsWith("checkpoints.checkpoints_path: "), HasSubstr("holds checkpoints already")));
  EXPECT_THAT(
      refusal(tiny({there, "checkpoints.load_optimizer=false", "checkpoints.load_lr_scheduler=false"}),
              in("new", path("old"))),
      HasSubstr("holds checkpoints already"))
      << "new, with weights of its own folder";
  EXPECT_EQ(refusal(tiny({there, "tokens.train_steps=6"}), in("new", "latest")), "");
}

TEST_F(ResumeTest, AFolderOfTheUsersIsNeverReplaced) {
  const auto begin = tiny(saving({"tokens.train_steps=2"}));
  train(begin, in("run"));
  const fs::path mine = folder_ / "run" / "checkpoints" / "step-00000004";
  fs::create_directories(mine);
  std::ofstream(mine / "notes") << "mine";
  EXPECT_THAT(refusal(tiny(saving()), in("run", "latest")),
              AllOf(HasSubstr(mine.string()), HasSubstr("move it away")));
  // it may come while the run is at work
  fs::rename(mine, folder_ / "aside");
  TrainerOptions options = in("run", "latest");
  options.stop_requested = [&] {
    if (!fs::exists(mine)) fs::rename(folder_ / "aside", mine);
    return false;
  };
  EXPECT_THROW(train(tiny(saving()), options), CheckpointError);
  EXPECT_TRUE(fs::exists(mine / "notes"));
  EXPECT_EQ(find_newest_valid(folder_ / "run" / "checkpoints").newest->manifest.position.step, 2u);
}

TEST_F(ResumeTest, AutoGoesOnFromTheConfiguredCheckpointUntilThereIsAnOwnOne) {
  const Run straight = train(tiny(saving({"tokens.train_steps=6"})), in("straight"));
  const auto config = tiny(saving({"tokens.train_steps=6", "checkpoints.resume_checkpoint_path=" +
                                                               path("straight/checkpoints/step-00000002")}));
  const Run run = train(config, in("next", "auto"));
  EXPECT_EQ(run.metrics.front()["step"], 3);
  EXPECT_EQ(run.result.weights_sha256, straight.result.weights_sha256);
  fs::remove_all(folder_ / "next" / "checkpoints" / "step-00000006");
  EXPECT_EQ(train(config, in("next", "auto")).result.weights_sha256, straight.result.weights_sha256);
  EXPECT_THAT(log_of("next"), HasSubstr("resuming after step 4 from"));
}

TEST_F(ResumeTest, AnotherModelOrOptimizerIsRefusedByItsKeys) {
  train(tiny(saving({"tokens.train_steps=2"})), in("run"));
  const std::string model = "model.model_config.";
  const std::pair<std::vector<std::string>, std::vector<std::string>> cases[] = {
      {{model + "rope_theta=500"}, {model + "rope_theta: is 10000 in the checkpoint", "and 500 in the"}},
      {{model + "rms_norm_eps=0.1", model + "rope_theta=5"},
       {model + "rms_norm_eps: is ", model + "rope_theta is 10000 there, and 5 here"}},
      {{model + "rope_scaling={rope_type: linear, factor: 2}"},
       {model + "rope_scaling.rope_type: is default"}},
      {{model + "num_attention_heads=4", model + "head_dim=4"}, {model + "num_attention_heads: is 2"}},
      {{model + "num_hidden_layers=4"}, {model + "num_hidden_layers: is 8"}},
      {{"model.dtype=bfloat16"}, {"model.dtype: is float32 in the checkpoint", "and bfloat16 in"}},
      {{"optimizer.optimizer_factory={name: sgd}"}, {"optimizer_factory.name: is adamW in", "and sgd in"}},
      {{"tokens.micro_batch_size=4"}, {"has used 32 samples, with this configuration it would be 64"}},
  };
  for (const auto& [changes, words] : cases)
    for (const std::string& word : words)
      EXPECT_THAT(refusal(tiny(saving(changes)), in("run", "auto")), HasSubstr(word));
  // the rank looks again
  const auto other = tiny(saving({model + "rope_theta=500"}));
  const auto point = verified_resume_point(other, {path("run"), "auto"});
  EXPECT_THROW(require_same_training(*point, other), ConfigError);
}

TEST_F(ResumeTest, HyperParametersMayChangeAndAreNamed) {
  train(tiny(saving({"tokens.train_steps=2"})), in("run"));
  train(tiny(saving({"optimizer.weight_decay=0.5", "optimizer.optimizer_factory.adam_beta1=0.8"})),
        in("run", "latest"));
  EXPECT_THAT(log_of("run"),
              AllOf(HasSubstr("optimizer.weight_decay: 0.01 -> 0.5"),
                    HasSubstr("optimizer.optimizer_factory.adam_beta1: 0.9 -> 0.8"),
                    HasSubstr("tokens.train_steps: 2 -> 4"), testing::Not(HasSubstr("adam_beta2"))));
}

TEST_F(ResumeTest, WithoutOptimizerAndScheduleANewRunTakesTheWeightsAlone) {
  train(tiny(saving()), in("old"));
  const std::string no_optimizer = "checkpoints.load_optimizer=false";
  const std::string no_schedule = "checkpoints.load_lr_scheduler=false";
  for (const std::string& one : {no_optimizer, no_schedule})
    EXPECT_THAT(refusal(tiny({one}), in("new", path("old"))), HasSubstr("both true, or both false"));
  const auto config = tiny(saving({no_optimizer, no_schedule, "optimizer.optimizer_factory={name: sgd}",
                                   "model.dtype=bfloat16", "tokens.micro_batch_size=1"}));
  const Run run = train(config, in("new", path("old")));
  EXPECT_EQ(run.metrics.front()["step"], 1);
  EXPECT_EQ(run.result.steps, 4u);
  // its own checkpoints it takes whole
  fs::remove_all(folder_ / "new" / "checkpoints" / "step-00000004");
  EXPECT_EQ(train(config, in("new", "auto")).result.weights_sha256, run.result.weights_sha256);
  EXPECT_THAT(log_of("new"), HasSubstr("resuming after step 2 from"));
}

TEST_F(ResumeTest, ARunThatBeganWithGivenWeightsNeedsThemNoMore) {
  train(tiny(saving()), in("source"));
  static_cast<void>(convert_weft_to_hf(folder_ / "source", folder_ / "hf"));
  const std::string text = fmt::format(
      "general: {{run: given}}\nparallelism: {{pp: 2}}\n"
      "model: {{dtype: float32, init_method: {{path: \"{}\"}}}}\n"
      "tokens: {{sequence_length: 8, train_steps: 4, micro_batch_size: 2, "
      "batch_accumulation_per_replica: 2}}\n"
      "data_stages: [{{name: r, start_training_step: 1, data: {{dataset: null}}}}]\n"
      "optimizer: {{optimizer_factory: {{name: adamW}}, learning_rate_scheduler: {{learning_rate: "
      "0.01}}}}\n"
      "logging: {{iteration_step_info_interval: 1000, log_level: warning}}\n"
      "checkpoints: {{checkpoint_interval: 2}}\n",
      path("hf"));
  const Run straight = train(parse_config(text, "c.yaml").config, in("run"));
  fs::remove_all(folder_ / "run" / "checkpoints" / "step-00000004");
  fs::remove_all(folder_ / "hf");
  const ResumeRequest request{path("run"), "auto"};
  const Run rest =
      train(parse_config(text, "c.yaml", {}, resumed_architecture(request)).config, in("run", "auto"));
  EXPECT_EQ(rest.result.weights_sha256, straight.result.weights_sha256);
  EXPECT_THROW((void)parse_config(text, "c.yaml", {}, resumed_architecture({path("other"), "auto"})),
               ConfigError);
  // what has come into its place is not read
  fs::create_directories(folder_ / "hf");
  std::ofstream(folder_ / "hf" / "config.json") << "{}";
  EXPECT_EQ(
      parse_config(text, "c.yaml", {}, resumed_architecture(request)).config.model.model_config.hidden_size,
      16);
}

// A longer training has another schedule: without a word the rate would jump from 0.001055 to 0.0055.
TEST_F(ResumeTest, AnotherLearningRateIsTold) {
  const std::vector<std::string> cosine = {
      "optimizer.learning_rate_scheduler={learning_rate: 0.01, lr_decay_style: cosine, min_decay_lr: 0.001}",
      "model.model_config.num_hidden_layers=1", "tokens.batch_accumulation_per_replica=1"};
  const auto for_steps = [&](const std::string& steps, std::vector<std::string> more = {}) {
    more.insert(more.end(), cosine.begin(), cosine.end());
    more.push_back("tokens.train_steps=" + steps);
    return tiny(saving(more));
  };
  train(for_steps("20"), in("longer"));
  Manifest manifest = CheckpointReader(folder_ / "longer" / "checkpoints" / "step-00000020").manifest();
  EXPECT_THAT(
      changed_settings(manifest, for_steps("40")),
      testing::ElementsAre("tokens.train_steps: 20 -> 40",
                           "learning rate: 0.001055 at step 20 -> 0.0055 at step 21 (it would have been "
                           "0.001)"));
  EXPECT_THAT(changed_settings(manifest, for_steps("20", {"optimizer.weight_decay=0.5"})),
              testing::ElementsAre("optimizer.weight_decay: 0.01 -> 0.5"));
  train(for_steps("21"), in("longer", "latest"));
  EXPECT_THAT(log_of("longer"),
              HasSubstr("changed since that checkpoint: learning rate: 0.001055 at step 20 -> "));
}

TEST_F(ResumeTest, OtherDataIsNoticed) {
  train(tiny(saving({"tokens.train_steps=2"})), in("data"));
  const auto warns = [&](const std::string& change) {
    train(tiny(saving({"tokens.train_steps=3", "checkpoints.save_final_state=false", change})),
          in("data", "latest"));
    return log_of("data").find("step 2 read other samples in the checkpoint's run") != std::string::npos;
  };
  EXPECT_FALSE(warns("general.seed=8"));
  EXPECT_TRUE(warns("data_stages.0.data.seed=4"));
  const auto cut_otherwise = tiny({"tokens.micro_batch_size=4", "tokens.batch_accumulation_per_replica=4"});
  EXPECT_EQ(train(cut_otherwise, in("data", "latest")).result.steps, 4u) << "the same samples per step";
}

TEST_F(ResumeTest, AFailureIsInTheResultUntilTheRunGoesOn) {
  const std::vector<std::string> diverging = {"optimizer.learning_rate_scheduler.learning_rate=1e30",
                                              "optimizer.learning_rate_scheduler.min_decay_lr=1e30",
                                              "checkpoints.save_initial_state=true", "parallelism.pp=2"};
  EXPECT_THROW(train(tiny(diverging), in("run")), NonFiniteError);
  const auto result = read_json(result_file(path("run")));
  EXPECT_EQ(result["exit_reason"], "failed");
  EXPECT_THAT(result["message"].get<std::string>(),
              testing::ContainsRegex("^step [0-9]+.*(not finite|NaN|inf)"));
  EXPECT_FALSE(result.contains("weights_sha256"));
  bool there_while_running = true;
  TrainerOptions options = in("run", "auto");
  options.stop_requested = [&] {
    there_while_running = fs::exists(result_file(path("run")));
    return false;
  };
  train(tiny(), options);
  EXPECT_FALSE(there_while_running);
  EXPECT_EQ(read_json(result_file(path("run")))["exit_reason"], "finished");
}

}  // namespace
}  // namespace weft
