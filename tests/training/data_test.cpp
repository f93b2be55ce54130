// Datasets: which sample holds which tokens.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <set>

#include "config_text.h"
#include "weft/base/random.h"
#include "weft/tests/support/scratch_folder.h"
#include "weft/training/data/permutation.h"
#include "weft/training/data/random_tokens.h"
#include "weft/training/data/text_files.h"
#include "weft/training/data/token_batches.h"
#include "weft/training/data/token_file.h"
#include "weft/training/data/training_data.h"

namespace weft {
namespace {

using test::ScratchFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::load_with;
using ::testing::StartsWith;

using Tokens = std::vector<std::int32_t>;

Tokens read(const Dataset& dataset, std::uint64_t n, std::size_t window) {
  Tokens tokens(window);
  dataset.read(n, tokens);
  return tokens;
}

std::string text_of(const Tokens& tokens) { return {tokens.begin(), tokens.end()}; }

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

TEST(Permutation, HitsEveryPlaceOnce) {
  for (std::uint64_t size = 1; size <= 200; ++size) {
    const Permutation permutation(7, 3, size);
    std::vector<bool> hit(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t place = permutation.at(i);
      ASSERT_LT(place, size);
      ASSERT_FALSE(hit[place]);
      hit[place] = true;
    }
  }
}

TEST(Permutation, IsDrawnAnewForEverySeedAndEpoch) {
  constexpr std::uint64_t size = 1000;
  std::set<std::vector<std::uint64_t>> seen;
  for (std::uint64_t seed : {0, 1, 42}) {
    for (std::uint64_t epoch : {0, 1, 2}) {
      const Permutation permutation(seed, epoch, size);
      std::vector<std::uint64_t> order;
      for (std::uint64_t i = 0; i < size; ++i) order.push_back(permutation.at(i));
      std::uint64_t fixed = 0;
      std::uint64_t neighbours = 0;
      for (std::uint64_t i = 0; i + 1 < size; ++i) {
        fixed += order[i] == i ? 1 : 0;
        neighbours += order[i] + 1 == order[i + 1] ? 1 : 0;
      }
      EXPECT_LT(fixed, 10U);  // one is expected of a random order
      EXPECT_LT(neighbours, 10U);
      seen.insert(order);
    }
  }
  EXPECT_EQ(seen.size(), 9U);
}

TEST(Permutation, KeepsItsOrderForEver) {
  // Written down once: a change here changes the data order of every run.
  const Permutation permutation(42, 1, 10);
  std::vector<std::uint64_t> order;
  for (std::uint64_t i = 0; i < 10; ++i) order.push_back(permutation.at(i));
  EXPECT_THAT(order, ElementsAre(0, 6, 3, 9, 5, 2, 8, 4, 7, 1));
}

TEST(Permutation, WorksOnHugeRanges) {
  const Permutation permutation(1, 0, 1ULL << 62);
  EXPECT_LT(permutation.at((1ULL << 62) - 1), 1ULL << 62);
  EXPECT_NE(permutation.at(0), permutation.at(1));
}

TEST(TextFiles, InOrderAreWindowsOfTheFilesOneAfterTheOther) {
  const ScratchFolder folder;
  const std::vector<std::string> paths = {folder.write("a", "abcde"), folder.write("b", "f"),
                                          folder.write("c", "ghijklm")};
  const TextFiles files(paths, 4, false, 1);
  ASSERT_EQ(files.window_count(), 3U);  // 13 bytes, the last one is dropped
  EXPECT_EQ(text_of(read(files, 0, 4)), "abcd");
  EXPECT_EQ(text_of(read(files, 1, 4)), "efgh");
  EXPECT_EQ(text_of(read(files, 2, 4)), "ijkl");
  EXPECT_EQ(text_of(read(files, 3, 4)), "abcd");
}

TEST(TextFiles, ShuffledShowEveryWindowOncePerEpochInAnotherOrder) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 250; ++i) text += static_cast<char>(i);
  const TextFiles files({folder.write("bytes", text)}, 5, true, 9);
  const TextFiles again({folder.path("bytes")}, 5, true, 9);
  const TextFiles other_seed({folder.path("bytes")}, 5, true, 10);
  std::set<std::vector<Tokens>> epochs;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<Tokens> windows;
    std::vector<Tokens> others;
    for (std::uint64_t i = 0; i < 50; ++i) {
      windows.push_back(read(files, epoch * 50 + i, 5));
      others.push_back(read(other_seed, epoch * 50 + i, 5));
      EXPECT_EQ(windows.back().front() % 5, 0);
      EXPECT_EQ(windows.back().back(), windows.back().front() + 4);
    }
    EXPECT_EQ(std::set<Tokens>(windows.begin(), windows.end()).size(), 50U);
    EXPECT_NE(windows, others);
    epochs.insert(windows);
  }
  EXPECT_EQ(epochs.size(), 3U);
  EXPECT_EQ(read(again, 123, 5), read(files, 123, 5));  // asked for first
}

TEST(TextFiles, AreFoundByPathAndGlobSortedAndWithoutLinksToTheSameFile) {
  const ScratchFolder folder;
  folder.write("b.txt", "b");
  folder.write("a.txt", "a");
  folder.write("c.dat", "c");
  folder.write("d[1].txt", "d");
  std::filesystem::create_symlink("a.txt", folder.path("z.txt"));
  std::filesystem::create_hard_link(folder.path("b.txt"), folder.path("bb.txt"));
  std::filesystem::create_directory(folder.path("sub.txt"));
  EXPECT_THAT(
      find_text_files({folder.path("*.txt"), folder.path("c.dat")}),
      ElementsAre(folder.path("a.txt"), folder.path("b.txt"), folder.path("c.dat"), folder.path("d[1].txt")));
  EXPECT_THAT(find_text_files({folder.path("z.txt")}), ElementsAre(folder.path("z.txt")));
  EXPECT_THAT(find_text_files({folder.path("d[1].txt")}), ElementsAre(folder.path("d[1].txt")));
}

TEST(TextFiles, ThatCannotBeReadAreNamed) {
  const ScratchFolder folder;
  const std::string empty = folder.write("void.txt", "");
  const std::string small = folder.write("small.txt", "abc");
  EXPECT_THAT(error_of([&] { (void)find_text_files({folder.path("none")}); }),
              HasSubstr("none cannot be opened: "));
  EXPECT_THAT(error_of([&] { (void)find_text_files({folder.path("no*")}); }),
              HasSubstr("no* matches no file"));
  EXPECT_THAT(error_of([&] { (void)find_text_files({folder.path("")}); }), HasSubstr("is a folder"));
  EXPECT_THAT(error_of([&] { (void)find_text_files({"/dev/null"}); }),
              HasSubstr("/dev/null is no regular file"));
  EXPECT_THAT(error_of([&] { TextFiles({small, empty}, 2, true, 1); }), HasSubstr("void.txt is empty"));
  EXPECT_THAT(error_of([&] { TextFiles({small}, 4, true, 1); }),
              HasSubstr("small.txt hold 3 bytes, one sample needs sequence_length + 1 = 4"));
}

TEST(TextFiles, ThatBecomeShorterAreAnErrorAndNoSignal) {
  const ScratchFolder folder;
  const std::string path = folder.write("t.txt", std::string(20'000, 'a'));
  const TextFiles file({path}, 100, false, 1);
  EXPECT_EQ(read(file, 199, 100).back(), 'a');
  std::filesystem::resize_file(path, 5'000);
  EXPECT_EQ(read(file, 49, 100).back(), 'a');
  EXPECT_THAT(error_of([&] { (void)read(file, 199, 100); }),
              HasSubstr("t.txt had 20000 bytes when it was opened and has 5000 now"));
}

TEST(TextFiles, MayBeMoreThanAProcessMayOpenAtFirst) {
  const ScratchFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = 40;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  for (int i = 10; i < 70; ++i) folder.write("t" + std::to_string(i), {static_cast<char>(i), 'x'});
  const TextFiles files(find_text_files({folder.path("t*")}), 2, false, 1);
  EXPECT_EQ(read(files, 59, 2).front(), 69);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
}

std::string little_endian(const std::vector<std::uint32_t>& tokens, std::size_t bytes) {
  std::string result;
  for (const std::uint32_t token : tokens) {
    for (std::size_t i = 0; i < bytes; ++i) result += static_cast<char>(token >> (8 * i));
  }
  return result;
}

TEST(TokenFile, HoldsTokensOfTwoOrFourBytesInOrder) {
  const ScratchFolder folder;
  for (const std::size_t bytes : {2U, 4U}) {
    const std::string path = folder.write("t", little_endian({1, 2, 300, 4, 5, 60000, 7}, bytes));
    const TokenFile file(path, bytes, 3, 60001, false, 1);
    EXPECT_EQ(file.sample_count(), 2U);
    EXPECT_THAT(read(file, 0, 3), ElementsAre(1, 2, 300));
    EXPECT_THAT(read(file, 1, 3), ElementsAre(4, 5, 60000));
    file.check();
  }
}

TEST(TokenFile, ShuffledHoldsTheSameSamples) {
  const ScratchFolder folder;
  std::vector<std::uint32_t> tokens(400);
  for (std::uint32_t i = 0; i < 400; ++i) tokens[i] = i;
  const std::string path = folder.write("t", little_endian(tokens, 2));
  const TokenFile file(path, 2, 4, 400, true, 5);
  std::set<std::int32_t> firsts;
  bool moved = false;
  for (std::uint64_t n = 0; n < 100; ++n) {
    const Tokens sample = read(file, n, 4);
    EXPECT_EQ(sample.back(), sample.front() + 3);
    firsts.insert(sample.front());
    moved = moved || sample.front() != static_cast<std::int32_t>(4 * n);
  }
  EXPECT_EQ(firsts.size(), 100U);
  EXPECT_TRUE(moved);
}

TEST(TokenFile, ThatBecomesShorterIsAnErrorAndNoSignal) {
  const ScratchFolder folder;
  for (const std::size_t bytes : {2U, 4U}) {
    const std::string path = folder.write("t", little_endian(std::vector<std::uint32_t>(9'000, 3), bytes));
    const TokenFile file(path, bytes, 3, 4, false, 1);
    std::filesystem::resize_file(path, 0);
    EXPECT_THAT(error_of([&] { (void)read(file, 2'999, 3); }), HasSubstr("and has 0 now"));
    EXPECT_THAT(error_of([&] { file.check(); }), HasSubstr("something has cut it"));
  }
}

TEST(TokenFile, IsRefusedWithTheOffsetOfWhatIsWrong) {
  const ScratchFolder folder;
  const std::string odd = folder.write("odd", "abcde");
  EXPECT_THAT(error_of([&] { TokenFile(odd, 2, 2, 99999, false, 1); }),
              HasSubstr("odd has 5 bytes, no multiple of 2: the last token starts at offset 4"));
  const std::string four = folder.write("four", little_endian({1, 2, 0x80000000, 3}, 4));
  const TokenFile file(four, 4, 2, 100, false, 1);
  EXPECT_THAT(error_of([&] { file.check(); }),
              HasSubstr("four holds token 2147483648 at offset 8, outside the vocabulary of 100"));
  EXPECT_THAT(error_of([&] { (void)read(file, 1, 2); }), HasSubstr("at offset 8"));
  EXPECT_THAT(error_of([&] { (void)read(file, 2, 2); }), HasSubstr("ends at offset 16, sample 2 is wanted"));
  EXPECT_THAT(error_of([&] { TokenFile(four, 4, 5, 100, false, 1); }), HasSubstr("four ends at offset 16"));
  EXPECT_THAT(error_of([&] { TokenFile(folder.path("none"), 2, 2, 9, false, 1); }),
              HasSubstr("cannot be opened"));
  EXPECT_THAT(error_of([&] { TokenFile(folder.write("void", ""), 2, 2, 9, false, 1); }),
              HasSubstr("void is empty"));
}

TEST(RandomTokens, AreTheGeneratorsNumbersOfThePlace) {
  const RandomTokens tokens(42, 1000);
  const Tokens sample = read(tokens, 7, 50);
  const CounterRandom random(42, RandomPurpose::random_tokens, 7);
  for (std::size_t i = 0; i < sample.size(); ++i) {
    EXPECT_EQ(sample[i], static_cast<std::int32_t>(random.below(1000, i)));
  }
  EXPECT_NE(sample, read(tokens, 8, 50));
}

/// 16 tokens of sequence, 8 samples a step: see config_text.h.
std::string token_file_of(const ScratchFolder& folder, const std::string& name, std::uint32_t samples,
                          std::uint32_t first) {
  std::vector<std::uint32_t> tokens(samples * 17);
  for (std::uint32_t i = 0; i < tokens.size(); ++i) tokens[i] = (first + i / 17) % 256;
  return folder.write(name, little_endian(tokens, 2));
}

TEST(TrainingData, SwitchesStagesAtTheirStep) {
  const ScratchFolder folder;
  const std::string early = token_file_of(folder, "early", 24, 0);
  const std::string late = token_file_of(folder, "late", 56, 100);
  const NanotronConfig config =
      load_with({"data_stages=[{name: late, start_training_step: 4, data: {dataset: {token_file: " + late +
                 ", shuffle: false}}}, {name: early, start_training_step: 1, data: {dataset: {token_file: " +
                 early + ", shuffle: false}}}]"})
          .config;
  const TrainingData data(config);
  Tokens tokens(17);
  const auto first_token = [&](std::uint64_t step, std::uint64_t i) {
    data.read(step, i, tokens);
    return tokens.front();
  };
  EXPECT_EQ(first_token(1, 0), 0);
  EXPECT_EQ(first_token(2, 3), 11);
  EXPECT_EQ(first_token(3, 7), 23);
  EXPECT_EQ(first_token(4, 0), 100);
  EXPECT_EQ(first_token(10, 7), 155);
  EXPECT_THROW(data.read(0, 0, tokens), Error);
}

TEST(TrainingData, ThatCannotServeTheStepsIsAConfigurationError) {
  const ScratchFolder folder;
  const std::string tokens = token_file_of(folder, "tokens", 79, 0);  // 80 are needed
  const auto opened = [&](const std::string& dataset) {
    const LoadedConfig loaded = load_with({"data_stages.0.data.dataset=" + dataset});
    return error_of([&] { check_training_data(loaded.config, loaded.sources); });
  };
  EXPECT_THAT(opened("{token_file: " + tokens + "}"),
              AllOf(StartsWith("--set:1:41: data_stages.0.data.dataset.token_file: holds 79 samples"),
                    HasSubstr("need 80"), HasSubstr("allowed: at most 9 steps")));
  EXPECT_THAT(opened("{text_files: [" + folder.path("no-such*") + "]}"),
              AllOf(StartsWith("--set:1:42: data_stages.0.data.dataset.text_files.0: "),
                    HasSubstr("no-such* matches no file")));
  std::string outside = little_endian(std::vector<std::uint32_t>(80 * 17, 1), 2);
  outside[2 * 1300 + 1] = 2;
  EXPECT_THAT(opened("{token_file: " + folder.write("outside", outside) + "}"),
              HasSubstr("outside holds token 513 at offset 2600, outside the vocabulary of 256"));
}

TEST(TrainingData, NamesTheItemOfAListThatIsAtFault) {
  const ScratchFolder folder;
  const std::string good = folder.write("good", std::string(5000, 'a'));
  const std::string empty = folder.write("void", "");
  const auto refused = [&](const std::string& dataset, const std::string& more = "tokens.train_steps=1") {
    const LoadedConfig loaded = load_with({"data_stages.0.data.dataset=" + dataset, more});
    const std::string error = error_of([&] { check_training_data(loaded.config, loaded.sources); });
    const std::string path = "data_stages.0.data.dataset.";
    const std::size_t at = error.find(path);
    return at == std::string::npos ? error : error.substr(at + path.size());
  };
  const std::string evaluate = "tokens.val_check_interval=1";
  EXPECT_THAT(refused("{text_files: [" + good + ", none]}"),
              StartsWith("text_files.1: none cannot be opened"));
  EXPECT_THAT(refused("{text_files: [" + good + ", " + empty + "]}"), StartsWith("text_files.1: "));
  EXPECT_THAT(refused("{text_files: [" + folder.path("v*") + "]}"), HasSubstr("void is empty"));
  EXPECT_THAT(refused("{text_files: " + folder.path("n*") + "}"), StartsWith("text_files.0: "));
  EXPECT_THAT(refused("{text_files: " + folder.write("short", "abc") + "}"), StartsWith("text_files: "));
  EXPECT_THAT(refused("{text_files: " + good + ", validation_files: [" + good + ", none]}", evaluate),
              StartsWith("validation_files.1: none cannot be opened"));
  EXPECT_THAT(refused("{text_files: " + good + ", validation_files: " + folder.path("short") + "}", evaluate),
              StartsWith("validation_files: "));
  EXPECT_THAT(refused("{text_files: " + folder.write("few", std::string(17 * 20, 'a')) + "}", evaluate),
              StartsWith("text_files: 1 samples are held out for evaluation, one batch needs 8"));
  EXPECT_THAT(refused("{token_file: none}"), StartsWith("token_file: none cannot be opened"));
  EXPECT_THAT(refused("{token_file: " + token_file_of(folder, "tokens", 80, 0) + "}", evaluate),
              StartsWith("--set:1:27: tokens.val_check_interval: nothing can be held out for evaluation"));
  const std::string one = little_endian(std::vector<std::uint32_t>(80 * 17, 1), 2);
  folder.write("a/x.ds", one);
  folder.write("b/x.ds", little_endian(std::vector<std::uint32_t>(80 * 17, 500), 2));
  const auto folders = [&](const std::string& second) {
    return refused("{dataset_folder: [" + folder.path("a") + ", " + folder.path(second) +
                   "], token_size_in_bytes: 2}");
  };
  EXPECT_THAT(folders("none"), StartsWith("dataset_folder.1: "));
  EXPECT_THAT(folders("b"), AllOf(StartsWith("dataset_folder.1: "), HasSubstr("outside the vocabulary")));
  EXPECT_EQ(folders("a"), "");
}

TEST(TrainingData, EvaluatesAllThatIsHeldOutOrTheBatchesThatWereAskedFor) {
  const ScratchFolder folder;
  const std::string text =
      "data_stages.0.data.dataset={text_files: " + folder.write("t", std::string(17 * 640, 'a')) + "}";
  const auto batches = [&](const std::string& limit) {
    return TrainingData(load_with({text, "tokens.val_check_interval=1", limit}).config).validation_batches(1);
  };
  EXPECT_EQ(batches("tokens.limit_val_batches=null"), 4U);  // 5 % of 640 samples in batches of 8
  EXPECT_EQ(batches("tokens.limit_val_batches=3"), 3U);
  EXPECT_EQ(batches("tokens.limit_val_batches=100"), 4U);
}

TEST(TokenBatches, CutSamplesIntoInputsAndShiftedTargets) {
  const ScratchFolder folder;
  std::string text;
  for (int i = 0; i < 17 * 200; ++i) text += static_cast<char>(i / 17);
  for (int i = 0; i < 200; ++i) text[static_cast<std::size_t>(i) * 17 + 16] = '!';
  const NanotronConfig config =
      load_with({"data_stages.0.data.dataset={text_files: " + folder.write("t", text) + ", shuffle: false}"})
          .config;
  const TrainingData data(config);
  TokenBatches batches(config, data);
  for (std::uint64_t step : {3U, 1U}) {
    batches.begin_step(step);
    for (std::uint32_t microbatch : {2U, 0U, 3U}) {
      const Tensor& inputs = batches.inputs(microbatch)[0];
      const Tensor& targets = batches.targets(microbatch)[0];
      ASSERT_EQ(inputs.shape(), (Shape{2, 16}));
      ASSERT_EQ(targets.dtype(), DType::int32);
      for (std::uint32_t i = 0; i < 2; ++i) {
        const auto sample = static_cast<std::int32_t>((step - 1) * 8 + microbatch * 2 + i);
        EXPECT_EQ(inputs.as<std::int32_t>()[i * 16], sample);
        EXPECT_EQ(inputs.as<std::int32_t>()[i * 16 + 15], sample);
        EXPECT_EQ(targets.as<std::int32_t>()[i * 16], sample);
        EXPECT_EQ(targets.as<std::int32_t>()[i * 16 + 15], '!');
      }
    }
  }
}

TEST(TokenBatches, KeepAMicrobatchInPlaceWhileOthersAreRead) {
  const NanotronConfig config = load_with({}).config;
  const TrainingData data(config);
  TokenBatches batches(config, data);
  batches.begin_step(1);
  const TensorList& first = batches.inputs(0);
  const Tokens before(first[0].as<std::int32_t>(), first[0].as<std::int32_t>() + 32);
  (void)batches.inputs(1);
  (void)batches.targets(0);
  EXPECT_EQ(&batches.inputs(0), &first);
  EXPECT_EQ(Tokens(first[0].as<std::int32_t>(), first[0].as<std::int32_t>() + 32), before);
}

}  // namespace
}  // namespace weft
