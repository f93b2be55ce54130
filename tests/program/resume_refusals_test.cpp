// What ends `weft train` with status 2 before a rank starts, and `weft checkpoint` and `weft convert` on the
// folders that users have.
#include <algorithm>
#include <vector>

#include "program_test.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class ResumeRefusals : public ProgramTest {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const auto& entry : fs::recursive_directory_iterator(folder_))
      if (entry.path().filename() != "out" && entry.path().filename() != "err")
        all.push_back(entry.path().string());
    std::sort(all.begin(), all.end());
    return all;
  }
};

TEST_F(ResumeRefusals, EndWithStatusTwoAndMakeNothing) {
  ASSERT_EQ(weft("train --config tiny.yaml --run-dir old --transport inproc").status, 0) << text_of("err");
  const auto before = names();
  const std::pair<const char*, const char*> cases[] = {
      {"--resume latest", "--resume: latest: there is no checkpoint in runs/tiny"},
      {"--run-dir new --resume latest", "--resume: latest: there is no checkpoint in new/checkpoints"},
      {"--run-dir new --resume nope", "--resume: nope: does not exist"},
      {"--set checkpoints.resume_checkpoint_path=nope", "checkpoints.resume_checkpoint_path: nope: does not"},
      {"--set checkpoints.checkpoints_path=/proc/nope",
       "checkpoints.checkpoints_path: /proc/nope: cannot be"},
      {"--set checkpoints.checkpoints_path=../../old/checkpoints", "checkpoints_path: "},
      {"--run-dir tiny.yaml", "--run-dir: tiny.yaml: is not a folder"},
      {"--run-dir /proc/x", "--run-dir: /proc/x: cannot be made"},
      {"--run-dir old --resume auto --set model.model_config.rope_theta=5",
       "model.model_config.rope_theta: is"},
      {"--run-dir new --resume old --set tokens.train_steps=4 --set 'optimizer.optimizer_factory={name: "
       "sgd}'",
       "optimizer.optimizer_factory.name: is adamW"},
  };
  for (const auto& [arguments, words] : cases)
    for (const char* how : {"", " --dry-run"}) {
      const Outcome outcome = weft(std::string("train --config tiny.yaml ") + arguments + how);
      EXPECT_EQ(outcome.status, 2) << arguments;
      EXPECT_THAT(outcome.err, HasSubstr(words)) << arguments;
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
      EXPECT_EQ(names(), before) << arguments;
    }
}

TEST_F(ResumeRefusals, AFolderThatIsGoneIsNoPlaceForARun) {
  fs::create_directories(folder_ / "gone");
  const Outcome outcome = shell(WEFT_PROGRAM " train --config ../tiny.yaml --dry-run", "gone");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::string config = (folder_ / "tiny.yaml").string();
  const Outcome gone = shell(WEFT_PROGRAM " train --config " + config, "gone && rmdir ../gone");
  EXPECT_EQ(gone.status, 2);
  EXPECT_THAT(gone.err, HasSubstr("the current folder no longer exists"));
}

TEST_F(ResumeRefusals, AFinishedRunIsAnswered) {
  ASSERT_EQ(weft("train --config tiny.yaml --run-dir old").status, 0) << text_of("err");
  const auto before = names();
  const std::string result = text_of("old/result.json");
  const std::string config = text_of("old/config.yaml");
  for (const char* transport : {"ucx", "inproc"}) {
    const Outcome again =
        weft(std::string("train --config tiny.yaml --run-dir old --resume auto --threads 1 --transport ") +
             transport);
    EXPECT_EQ(again.status, 0) << again.err;
    EXPECT_THAT(again.out, HasSubstr("all 3 steps are done already"));
    EXPECT_EQ(names(), before);
    EXPECT_EQ(text_of("old/config.yaml"), config);
  }
  fs::remove(folder_ / "old" / "result.json");
  EXPECT_EQ(weft("train --config tiny.yaml --run-dir old --resume latest").status, 0);
  EXPECT_EQ(text_of("old/result.json"), result);
}

TEST_F(ResumeRefusals, FoldersOfRunsAndDamageAreUnderstood) {
  ASSERT_EQ(weft("train --config tiny.yaml --run-dir old --transport inproc").status, 0) << text_of("err");
  const Outcome hash = weft("checkpoint hash old");
  EXPECT_EQ(hash.status, 0);
  EXPECT_EQ(hash.out, weft("checkpoint hash old/checkpoints").out);
  EXPECT_EQ(weft("checkpoint verify old").status, 0);
  EXPECT_EQ(weft("checkpoint diff old old/checkpoints/step-00000003").status, 0);
  EXPECT_EQ(weft("checkpoint list old").status, 0);
  fs::create_directories(folder_ / "here");
  fs::create_directories(folder_ / "empty");
  fs::create_directory_symlink("empty", folder_ / "link");
  for (const char* target : {"made", "link", "here/."}) {
    const Outcome converted = weft(std::string("convert weft-to-hf old ") + target);
    EXPECT_EQ(converted.status, 0) << target << converted.err;
    EXPECT_TRUE(fs::exists(folder_ / target / "config.json")) << target;
  }
  fs::resize_file(folder_ / "old/checkpoints/step-00000003/weights-0000.safetensors", 10);
  const Outcome list = weft("checkpoint list old");
  EXPECT_EQ(list.status, 1);
  EXPECT_THAT(list.out,
              HasSubstr("damaged: old/checkpoints/step-00000003/weights-0000.safetensors: has 10 bytes"));
  fs::create_directories(folder_ / "none");
  const Outcome none = weft("checkpoint list none");
  EXPECT_EQ(none.status, 1);
  EXPECT_EQ(none.err, "weft: none: holds no checkpoint\n");
  EXPECT_EQ(weft("checkpoint list nowhere").status, 1);
}

TEST_F(ResumeRefusals, AFailureIsInTheResult) {
  const Outcome outcome = weft(
      "train --config tiny.yaml --run-dir bad --set optimizer.learning_rate_scheduler.learning_rate=1e30 "
      "--set "
      "tokens.train_steps=9");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(text_of("bad/result.json"),
              testing::AllOf(HasSubstr("\"exit_reason\": \"failed\""), HasSubstr("\"message\": \"step ")));
}

}  // namespace
}  // namespace weft
