#include "weft/training/data/nanoset.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "config_text.h"
#include "weft/base/error.h"
#include "weft/tests/support/scratch_folder.h"
#include "weft/training/data/training_data.h"

namespace weft {
namespace {

using test::ScratchFolder;
using ::testing::HasSubstr;
using testing::load_with;

constexpr std::uint64_t window = 4;

/// Tokens first, first + 1, ... as a `.ds` file with 2 bytes a token.
std::string tokens_from(std::uint32_t first, std::uint32_t count) {
  std::string bytes;
  for (std::uint32_t i = 0; i < count; ++i) {
    bytes += static_cast<char>((first + i) & 0xff);
    bytes += static_cast<char>((first + i) >> 8);
  }
  return bytes;
}

std::string document_ends(const std::vector<std::uint64_t>& ends) {
  return {reinterpret_cast<const char*>(ends.data()), ends.size() * sizeof(std::uint64_t)};
}

std::int32_t first_token(const Dataset& dataset, std::uint64_t n) {
  std::vector<std::int32_t> tokens(window);
  dataset.read(n, tokens);
  for (std::size_t i = 1; i < window; ++i) EXPECT_EQ(tokens[i], tokens[0] + static_cast<std::int32_t>(i));
  return tokens[0];
}

Nanoset open(const std::vector<std::string>& folders, const std::vector<double>& weights = {},
             std::uint64_t seed = 1, std::optional<std::uint64_t> token_bytes = 2) {
  std::vector<DsFolder> opened;
  for (const std::string& folder : folders) opened.emplace_back(folder, token_bytes, window, 5000);
  return {std::move(opened), weights, seed};
}

template <class Action>
std::string error_of(Action action) {
  try {
    action();
  } catch (const Error& e) {
    return e.what();
  }
  return {};
}

TEST(Nanoset, ShowsEveryWindowOfAllFoldersOncePerEpoch) {
  const ScratchFolder scratch;
  scratch.write("a/1.ds", tokens_from(0, 22));    // windows at 0, 4, ... 16
  scratch.write("a/2.ds", tokens_from(100, 3));   // none
  scratch.write("a/3.ds", tokens_from(200, 8));   // 200, 204
  scratch.write("b/x.ds", tokens_from(300, 12));  // 300, 304, 308
  scratch.write("b/x.ds.loss", "ignored");
  const Nanoset set = open({scratch.path("a"), scratch.path("b")});
  std::set<std::vector<std::int32_t>> epochs;
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::int32_t> order;
    for (std::uint64_t i = 0; i < 10; ++i) order.push_back(first_token(set, epoch * 10 + i));
    EXPECT_THAT(order, ::testing::UnorderedElementsAre(0, 4, 8, 12, 16, 200, 204, 300, 304, 308));
    epochs.insert(order);
  }
  EXPECT_EQ(epochs.size(), 3U);
}

TEST(Nanoset, BlendsFoldersByTheirWeights) {
  const ScratchFolder scratch;
  scratch.write("a/1.ds", tokens_from(0, 28));      // 7 windows
  scratch.write("b/1.ds", tokens_from(1000, 400));  // 100 windows
  const Nanoset set = open({scratch.path("a"), scratch.path("b")}, {3, 1});
  std::map<std::int32_t, int> times;
  int from_a = 0;
  for (std::uint64_t n = 0; n < 400; ++n) {
    const std::int32_t token = first_token(set, n);
    ++times[token];
    from_a += token < 1000 ? 1 : 0;
    EXPECT_NEAR(from_a, 0.75 * static_cast<double>(n + 1), 1.0);
  }
  for (const auto& [token, count] : times) {
    if (token < 1000) {
      EXPECT_NEAR(count, 300 / 7, 1);  // 300 draws: 42 epochs and a bit
    } else {
      EXPECT_EQ(count, 1);
    }
  }
  EXPECT_EQ(times.size(), 107U);
  // folder a is gone through in another order each time
  std::vector<std::int32_t> from_a_in_order;
  for (std::uint64_t n = 0; n < 40; ++n) {
    const std::int32_t token = first_token(set, n);
    if (token < 1000) from_a_in_order.push_back(token);
  }
  const auto first = from_a_in_order.begin();
  EXPECT_THAT(std::vector(first, first + 7), ::testing::UnorderedElementsAre(0, 4, 8, 12, 16, 20, 24));
  EXPECT_NE(std::vector(first, first + 7), std::vector(first + 7, first + 14));
  // far along, beyond one block of the blend
  EXPECT_LT(first_token(set, 123'456'789'012), 5000);
}

TEST(Nanoset, TakesTheTokenSizeFromItsMetadata) {
  const ScratchFolder scratch;
  std::string four;
  for (const char c : {'\1', '\2', '\3', '\4'}) four += std::string({c, '\0', '\0', '\0'});
  scratch.write("a/1.ds", four);
  scratch.write("a/1.ds.metadata", "some|name|4\n4\n4 T\n");
  scratch.write("a/1.ds.index", document_ends({1, 1, 4}));
  EXPECT_EQ(first_token(open({scratch.path("a")}, {}, 1, std::nullopt), 5), 1);
  EXPECT_THAT(error_of([&] { (void)open({scratch.path("a")}); }),
              HasSubstr("1.ds has tokens of 4 bytes, token_size_in_bytes is 2"));
  scratch.write("a/1.ds.metadata", "name|2|\n");
  EXPECT_THAT(error_of([&] { (void)open({scratch.path("a")}); }), HasSubstr("metadata does not start with"));
  std::filesystem::remove(scratch.path("a/1.ds.metadata"));
  EXPECT_THAT(error_of([&] { (void)open({scratch.path("a")}, {}, 1, std::nullopt); }),
              HasSubstr("token_size_in_bytes must be given"));
}

TEST(Nanoset, IsRefusedWithTheFileThatIsWrong) {
  const ScratchFolder scratch;
  const auto opened = [&] { return error_of([&] { open({scratch.path("a")}).check(); }); };
  EXPECT_THAT(opened(), HasSubstr("cannot be read"));
  scratch.write("a/readme", "");
  EXPECT_THAT(opened(), HasSubstr("a holds no .ds file"));
  scratch.write("a/1.ds", tokens_from(0, 3));
  EXPECT_THAT(opened(), HasSubstr("holds no file with one sample"));
  scratch.write("a/1.ds", tokens_from(0, 9));
  EXPECT_EQ(opened(), "");
  scratch.write("a/1.ds.index", document_ends({4, 8}));
  EXPECT_THAT(opened(), HasSubstr("1.ds.index ends at token 8, its .ds file has 9 tokens"));
  scratch.write("a/1.ds.index", document_ends({4, 3, 9}));
  EXPECT_THAT(opened(), HasSubstr("1.ds.index falls from 4 to 3 at offset 8"));
  scratch.write("a/1.ds.index", document_ends({4, 9}));
  EXPECT_EQ(opened(), "");
  scratch.write("a/2.ds", tokens_from(4998, 4));
  EXPECT_THAT(opened(), HasSubstr("2.ds holds token 5000 at offset 4, outside the vocabulary of 5000"));
}

TEST(Nanoset, IsFoundByItsFolders) {
  const ScratchFolder scratch;
  scratch.write("a/1.ds", std::string(17 * 2 * 5, '\1'));
  const std::string dataset = "data_stages.0.data.dataset={dataset_folder: " + scratch.path("a") +
                              ", token_size_in_bytes: 2, dataset_weights: [1]}";
  const LoadedConfig loaded = load_with({dataset, "model.model_config.vocab_size=300"});
  check_training_data(loaded.config, loaded.sources);
  std::vector<std::int32_t> tokens(17);
  TrainingData(loaded.config).read(1000, 3, tokens);
  EXPECT_EQ(tokens[16], 257);
  const LoadedConfig small = load_with({dataset});
  EXPECT_THAT(error_of([&] { check_training_data(small.config, small.sources); }),
              HasSubstr("data_stages.0.data.dataset.dataset_folder.0: "));
  EXPECT_THAT(
      testing::error_of({dataset, "data_stages.0.data.dataset.vocab_size=7"}),
      HasSubstr("dataset.vocab_size: 7 differs from model.model_config.vocab_size 256; allowed: null, 256"));
}

}  // namespace
}  // namespace weft
