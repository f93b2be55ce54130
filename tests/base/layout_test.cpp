// The folders are the architecture: who may include whom, and which slow or foreign headers stay where.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>
#include "../support/paths.h"

namespace {

namespace fs = std::filesystem;

// A folder may include itself, what it is given here, and what those may include.
const std::map<std::string, std::set<std::string>> allowed = {
    {"base", {}},
    {"tensor", {"base"}},
    {"scheduling", {"base"}},
    {"transport", {"tensor", "base"}},
    {"actors", {"transport", "scheduling", "tensor", "base"}},
    {"model", {"actors", "transport", "scheduling", "tensor", "base"}},
    {"training", {"model", "actors", "transport", "scheduling", "tensor", "base"}},
    {"launch", {"training", "model", "actors", "transport", "scheduling", "tensor", "base"}},
};

struct Include {
  fs::path file;  // relative to the root
  std::string name;
};

std::vector<Include> includes() {
  std::vector<Include> all;
  for (const auto& [folder, unused] : allowed)
    for (const auto& entry : fs::recursive_directory_iterator(fs::path(weft::test::source_dir()) / folder)) {
      const auto extension = entry.path().extension();
      if (extension != ".h" && extension != ".cpp") continue;
      std::ifstream file(entry.path());
      for (std::string line; std::getline(file, line);) {
        if (line.rfind("#include ", 0) != 0) continue;
        const std::size_t end = line.find_first_of(">\"", 10);
        all.push_back({fs::relative(entry.path(), weft::test::source_dir()), line.substr(10, end - 10)});
      }
    }
  return all;
}

TEST(Layout, FoldersIncludeOnlyThoseAboveThem) {
  const auto all = includes();
  ASSERT_GT(all.size(), 500u) << "the sources were not found";
  for (const Include& include : all) {
    if (include.name.rfind("weft/", 0) != 0) continue;
    const std::string from = include.file.begin()->string();
    const std::string to = include.name.substr(5, include.name.find('/', 5) - 5);
    EXPECT_TRUE(from == to || allowed.at(from).count(to)) << include.file << " includes " << include.name;
  }
}

TEST(Layout, ForeignHeadersStayWhereTheyBelong) {
  const std::map<std::string, std::string> homes = {
      {"ucp/", "transport/ucx"}, {"ucs/", "transport/ucx"}, {"uct/", "transport/ucx"}, {"cuda", "cuda"}};
  for (const Include& include : includes())
    for (const auto& [prefix, home] : homes) {
      const bool at_home = include.file.string().find(home) != std::string::npos;
      EXPECT_TRUE(at_home || include.name.rfind(prefix, 0) != 0)
          << include.file << " includes " << include.name;
    }
}

TEST(Layout, LayersStagesAndOptimizersKnowNoDevice) {
  std::size_t seen = 0;
  for (const Include& include : includes()) {
    const std::string file = include.file.generic_string();
    const bool shared = file.rfind("model/layers/", 0) == 0 || file.rfind("model/llama/", 0) == 0 ||
                        file.rfind("model/optimizer/", 0) == 0;
    seen += shared;
    EXPECT_FALSE(shared && include.name.rfind("weft/model/ops/c", 0) == 0)
        << include.file << " includes " << include.name << ", not weft/model/ops/ops.h";
  }
  EXPECT_GT(seen, 50u);
}

TEST(Layout, SlowHeadersAreInNoHeader) {
  // Some headers are private to one folder's sources; those may say so here.
  const std::set<std::string> private_headers = {
      "model/weights/json_input.h", "transport/rendezvous/connection.h", "transport/rendezvous/roll.h",
      "transport/rendezvous/session.h"};
  for (const Include& include : includes()) {
    if (include.file.extension() != ".h" || private_headers.count(include.file.generic_string())) continue;
    for (const std::string slow : {"asio", "spdlog/", "CLI/", "yaml-cpp/", "nlohmann/"})
      EXPECT_NE(include.name.rfind(slow, 0), 0u) << include.file << " includes " << include.name;
  }
}

TEST(Layout, EveryFolderHasAReadme) {
  for (const char* folder : {"base", "tensor", "scheduling", "transport", "actors", "model", "training",
                             "launch", "configs", "tests", "bench", "examples", "docs"})
    EXPECT_TRUE(fs::exists(fs::path(weft::test::source_dir()) / folder / "README.md")) << folder;
}

}  // namespace
