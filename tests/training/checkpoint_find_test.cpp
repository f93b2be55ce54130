#include <gmock/gmock.h>

#include <fstream>

#include "weft/base/error.h"
#include "weft/base/files/folder_lock.h"
#include "weft/tests/training/checkpoint_fixture.h"
#include "weft/training/checkpoint/checkpoint_search.h"
#include "weft/training/checkpoint/checkpoint_text.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path, std::ios::trunc | std::ios::binary) << text;
}

void flip_byte(const std::filesystem::path& path, std::size_t at) {
  std::string text = read_small_file(path, 1 << 20);
  text.at(at) = static_cast<char>(text.at(at) ^ 1);
  write_text(path, text);
}

class CheckpointFind : public CheckpointTest {
 protected:
  /// Two checkpoints, of steps 1 and 2; the newer one is then damaged.
  void SetUp() override {
    CheckpointTest::SetUp();
    for (const unsigned step : {1u, 2u}) {
      model.fill(step);
      save(model, checkpoints, step);
    }
    newest = checkpoints / "step-00000002";
  }
  FakeModel model{2, DType::float32};
  std::filesystem::path newest;
};

TEST_F(CheckpointFind, TakesTheNewestAndSaysWhenThereIsNone) {
  EXPECT_EQ(find_newest_valid(checkpoints).newest->folder, newest);
  EXPECT_EQ(resolve_checkpoint(checkpoints).newest->folder, newest);
  EXPECT_EQ(resolve_checkpoint(checkpoints / "step-00000001").newest->manifest.position, position_at(1));
  EXPECT_FALSE(find_newest_valid(folder / "nowhere").newest);
  std::filesystem::create_directories(folder / "empty" / ".tmp-step-00000001-x");
  std::filesystem::create_directories(folder / "empty" / "step-abc");
  EXPECT_FALSE(find_newest_valid(folder / "empty").newest);
  EXPECT_THROW((void)resolve_checkpoint(folder / "empty"), CheckpointError);
  EXPECT_THROW((void)resolve_checkpoint(folder / "nowhere"), CheckpointError);
}

TEST_F(CheckpointFind, FollowsARunThatWentBackToAnEarlierStep) {
  save(model, checkpoints, 9);
  save(model, checkpoints, 5);
  EXPECT_EQ(find_newest_valid(checkpoints).newest->manifest.position.step, 5u);
}

TEST_F(CheckpointFind, DoesNotDependOnTheFileLatest) {
  for (const char* text : {"", "\n", "step-00000001", "100\n\n", "../../etc", "step-99999999\n"}) {
    write_text(checkpoints / latest_name, text);
    EXPECT_EQ(find_newest_valid(checkpoints).newest->folder, newest);
  }
  std::filesystem::remove(checkpoints / latest_name);
  EXPECT_EQ(find_newest_valid(checkpoints).newest->folder, newest);
}

TEST_F(CheckpointFind, NamesAndSkipsADamagedOne) {
  const auto weights = newest / "weights-0001.safetensors";
  const auto manifest = newest / "manifest.json";
  struct Damage {
    const char* what;
    std::function<void()> make;
    const char* message;
  };
  const Damage damages[] = {
      {"a flipped byte", [&] { flip_byte(weights, std::filesystem::file_size(weights) - 1); },
       "weights-0001.safetensors: its SHA-256"},
      {"a flipped byte of the header", [&] { flip_byte(newest / "state-0000.safetensors", 20); },
       "state-0000.safetensors: its SHA-256"},
      {"a truncated file", [&] { std::filesystem::resize_file(weights, 50); },
       "weights-0001.safetensors: has 50 bytes"},
      {"an empty file", [&] { write_text(weights, ""); }, "has 0 bytes"},
      {"a missing file", [&] { std::filesystem::remove(weights); },
       "weights-0001.safetensors: cannot be read"},
      {"a folder for a file",
       [&] {
         std::filesystem::remove(weights);
         std::filesystem::create_directory(weights);
       },
       "weights-0001.safetensors"},
      {"swapped files of two ranks",
       [&] {
         std::filesystem::rename(weights, newest / "x");
         std::filesystem::rename(newest / "weights-0000.safetensors", weights);
         std::filesystem::rename(newest / "x", newest / "weights-0000.safetensors");
       },
       "weights-0000.safetensors: has"},
      {"no manifest", [&] { std::filesystem::remove(manifest); }, "manifest.json cannot be opened"},
      {"an empty manifest", [&] { write_text(manifest, ""); }, "manifest.json: is empty"},
      {"a truncated manifest", [&] { std::filesystem::resize_file(manifest, 100); },
       "manifest.json: is not valid JSON"},
      {"the manifest of another step",
       [&] {
         std::filesystem::copy_file(checkpoints / "step-00000001" / "manifest.json", manifest,
                                    std::filesystem::copy_options::overwrite_existing);
       },
       "the manifest is that of step 1"},
      {"a file instead of a folder",
       [&] {
         std::filesystem::remove_all(newest);
         write_text(newest, "x");
       },
       "step-00000002"},
      {"a huge manifest", [&] { write_text(manifest, std::string(17 << 20, ' ')); }, "is longer than"},
      {"a pipe",
       [&] {
         std::filesystem::remove(weights);
         ASSERT_EQ(::mkfifo(weights.c_str(), 0600), 0);
       },
       "weights-0001.safetensors"},
  };
  for (const auto& damage : damages) {
    std::filesystem::remove_all(newest);
    model.fill(2);
    save(model, checkpoints, 2);
    damage.make();
    const auto search = find_newest_valid(checkpoints);
    EXPECT_EQ(search.newest->manifest.position.step, 1u) << damage.what;
    EXPECT_THAT(search.skipped, ElementsAre(HasSubstr(damage.message))) << damage.what;
    EXPECT_THROW((void)resolve_checkpoint(newest), CheckpointError) << damage.what;
    model.fill(0);
    restore(model, search.newest->folder);
    EXPECT_TRUE(model.holds(1));
  }
}

TEST_F(CheckpointFind, FailsWhenThereAreSomeButNoneIsValid) {
  std::filesystem::remove(newest / "manifest.json");
  std::filesystem::resize_file(checkpoints / "step-00000001" / "state-0000.safetensors", 9);
  try {
    (void)find_newest_valid(checkpoints);
    ADD_FAILURE();
  } catch (const CheckpointError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no checkpoint is valid"));
    EXPECT_THAT(error.what(), HasSubstr("step-00000002"));
    EXPECT_THAT(error.what(), HasSubstr("step-00000001"));
  }
}

using CheckpointReports = CheckpointFind;

TEST_F(CheckpointReports, ListWhatIsThereAndWhatIsDamaged) {
  EXPECT_FALSE(list_report(checkpoints).damaged);
  std::filesystem::create_directories(checkpoints / "step-00000003");
  save(model, checkpoints, 4);
  std::filesystem::resize_file(checkpoints / "step-00000004" / "state-0000.safetensors", 9);
  const auto list = list_report(checkpoints);
  EXPECT_THAT(list.text, testing::StartsWith("step-00000002"));
  EXPECT_THAT(list.text, HasSubstr("\nstep-00000001"));
  EXPECT_THAT(list.text, testing::ContainsRegex("\ndamaged: .*step-00000003/manifest.json cannot be opened"));
  EXPECT_THAT(list.text, testing::ContainsRegex("\ndamaged: .*state-0000.safetensors: has 9 bytes"));
  EXPECT_THAT(list.text, testing::Not(HasSubstr("\nstep-00000004")));
  EXPECT_TRUE(list.damaged);
  const auto one = list_report(newest).text;
  EXPECT_THAT(one, HasSubstr("step 2, 32 samples, 2048 tokens"));
  EXPECT_THAT(one, HasSubstr("layers.7.weight F32 [5, 3]\n"));
  EXPECT_THAT(one, HasSubstr("layers.7.weight.exp_avg F32 [5, 3]\n"));
  EXPECT_THROW((void)list_report(folder / "nowhere"), CheckpointError);
  std::filesystem::create_directories(folder / "empty");
  EXPECT_THROW((void)list_report(folder / "empty"), CheckpointError);
}

TEST_F(CheckpointReports, TakeTheFolderOfARunForItsCheckpoints) {
  write_text(folder / "config.yaml", "general: {run: r}\n");
  EXPECT_EQ(resolve_checkpoint(folder).newest->folder, newest);
  EXPECT_THAT(list_report(folder).text, testing::StartsWith("step-00000002"));
  EXPECT_THAT(hash_report(folder).text, EndsWith(model.weights_hash() + "\n"));
  std::filesystem::rename(checkpoints, folder / "elsewhere");
  write_text(folder / "config.yaml", "checkpoints: {checkpoints_path: elsewhere}\n");
  EXPECT_EQ(resolve_checkpoint(folder).newest->manifest.position.step, 2u);
}

TEST_F(CheckpointReports, VerifyReadsEverything) {
  EXPECT_THAT(verify_report(newest).text, EndsWith("weights_sha256 " + model.weights_hash() + "\n"));
  flip_byte(newest / "state-0001.safetensors", 300);
  EXPECT_THROW((void)verify_report(newest), CheckpointError);
  const auto next = verify_report(checkpoints);
  EXPECT_THAT(next.text, HasSubstr("step-00000001: valid"));
  EXPECT_THAT(next.skipped, ElementsAre(HasSubstr("state-0001.safetensors")));
}

TEST_F(CheckpointReports, HashIsThatOfTheWeightsWhateverTheLayout) {
  const std::string expected = model.weights_hash();
  FakeModel one_rank(1, DType::float32);
  one_rank.fill(2);
  const auto other = save(one_rank, folder / "other", 77);
  for (const auto& text : {hash_report(checkpoints).text, hash_report(other).text}) {
    const auto last = text.rfind('\n', text.size() - 2) + 1;
    EXPECT_EQ(text.substr(last), expected + "\n");
    EXPECT_EQ(sha256_hex(text.substr(0, last)), expected);  // as `head -n -1 | sha256sum`
  }
  EXPECT_NE(hash_report(checkpoints / "step-00000001").text, hash_report(newest).text);
}

TEST_F(CheckpointReports, DiffSaysWhereTwoDiffer) {
  FakeModel same(5, DType::float32);
  same.fill(2);
  const auto equal = diff_report(newest, save(same, folder / "other", 2));
  EXPECT_TRUE(equal.equal);
  EXPECT_EQ(equal.report.text, "equal: all 51 tensors\n");

  auto* value = reinterpret_cast<float*>(same.ranks[0].parameters[0]->value);
  value[4] = 1;
  const auto base = save(same, folder / "base", 2);
  value[4] = 3;
  same.ranks[1].parameters[0]->name = "renamed";
  same.ranks[1].states[0].name = "renamed.exp_avg";
  same.ranks[1].states[1].name = "renamed.exp_avg_sq";
  const auto different = diff_report(base, save(same, folder / "other", 3));
  EXPECT_FALSE(different.equal);
  EXPECT_THAT(different.report.text, HasSubstr("step: 2 | 3\n"));
  EXPECT_THAT(different.report.text, HasSubstr("embed.weight F32 [7, 3]: 1 of 21 elements differ, the "
                                               "largest difference is 2 at element 4 (1 | 3)\n"));
  EXPECT_THAT(different.report.text, HasSubstr("renamed F32 [3]: only on the right\n"));
  EXPECT_THAT(different.report.text, HasSubstr(": only on the left\n"));
}

using CheckpointLock = CheckpointTest;

TEST_F(CheckpointLock, LetsOneRunIntoAFolder) {
  {
    const FolderLock first(folder);
    try {
      const FolderLock second(folder);
      ADD_FAILURE();
    } catch (const CheckpointError& error) {
      EXPECT_THAT(error.what(),
                  HasSubstr("another run is using this folder (process " + std::to_string(::getpid())));
    }
    EXPECT_THROW(check_folder_is_free(folder), CheckpointError);
    const FolderLock elsewhere(folder / "new" / "folder");
  }
  check_folder_is_free(folder);
  const FolderLock again(folder);
}

TEST_F(CheckpointLock, AskingTakesAndMakesNothing) {
  check_folder_is_free(folder);
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  check_folder_is_free(folder / "nowhere");
}

TEST_F(CheckpointLock, IsFreeOnceAKilledHolderIsGone) {
  in_child([&] {
    const FolderLock lock(folder);
    ::kill(::getpid(), SIGKILL);
  });
  const FolderLock lock(folder);
}

}  // namespace
}  // namespace weft
