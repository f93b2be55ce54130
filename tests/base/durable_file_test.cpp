#include "weft/base/files/durable_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace weft {
namespace {

namespace fs = std::filesystem;

TEST(DurableFile, HasAnotherTemporaryNameAtEveryCall) {
  std::set<fs::path> names;
  for (int i = 0; i < 3; ++i) names.insert(temporary_sibling("folder/file"));
  EXPECT_EQ(names.size(), 3U);
  for (const fs::path& name : names) EXPECT_EQ(name.parent_path(), "folder");
}

TEST(DurableFile, IsReplacedByManyThreadsAtOnce) {
  std::string folder = testing::TempDir() + "weft-durable-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const fs::path file = fs::path(folder) / "result.json";
  std::vector<std::string> problems(4);
  std::vector<std::thread> threads;
  for (std::size_t thread = 0; thread < problems.size(); ++thread)
    threads.emplace_back([&, thread] {
      try {
        for (int i = 0; i < 20; ++i) replace_file(file, std::string(1000, static_cast<char>('a' + thread)));
      } catch (const std::exception& e) {
        problems[thread] = e.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
  const std::string text = read_small_file(file, 2000);
  EXPECT_EQ(text, std::string(1000, text.front()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), fs::directory_iterator()), 1);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace weft
