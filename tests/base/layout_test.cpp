// The folders are the architecture: who may include whom, which slow or foreign headers stay where, and what
// comments may cite.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "../support/paths.h"

namespace {

namespace fs = std::filesystem;

// A folder may include itself and these.
const std::map<std::string, std::set<std::string>> allowed = {
    {"base", {}},
    {"tensor", {"base"}},
    {"scheduling", {"base"}},
    {"transport", {"tensor", "base"}},
    {"actors", {"transport", "scheduling", "tensor", "base"}},
    {"model", {"actors", "transport", "scheduling", "tensor", "base"}},
    {"tokenizer", {"base"}},
    {"training", {"model", "tokenizer", "actors", "transport", "scheduling", "tensor", "base"}},
    {"launch", {"training", "model", "tokenizer", "actors", "transport", "scheduling", "tensor", "base"}},
};

fs::path root() { return weft::test::source_dir(); }

bool is_source(const fs::path& file) {
  const std::string extension = file.extension();
  return extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".cuh";
}

/// All sources below a folder, relative to the root, sorted.
std::vector<fs::path> sources(const std::string& folder) {
  std::vector<fs::path> files;
  if (!fs::exists(root() / folder)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(root() / folder))
    if (is_source(entry.path())) files.push_back(fs::relative(entry.path(), root()));
  std::sort(files.begin(), files.end());
  return files;
}

struct Include {
  fs::path file;  // relative to the root
  std::string name;
};

const std::vector<Include>& includes() {
  static const std::vector<Include> found = [] {
    std::vector<Include> all;
    for (const auto& [folder, unused] : allowed)
      for (const fs::path& source : sources(folder)) {
        std::ifstream file(root() / source);
        for (std::string line; std::getline(file, line);) {
          if (line.rfind("#include ", 0) != 0) continue;
          all.push_back({source, line.substr(10, line.find_first_of(">\"", 10) - 10)});
        }
      }
    return all;
  }();
  return found;
}

/// Every folder with its own files, subfolders apart, and the folders whose files these include; with the
/// files that do. A source may include subfolders of its own folder without being counted: it is where an
/// interface's header leaves the choice among its implementations to.
using Graph = std::map<std::string, std::map<std::string, std::set<std::string>>>;

Graph include_graph() {
  Graph graph;
  for (const Include& include : includes()) {
    const std::string from = include.file.parent_path().generic_string();
    graph[from];
    if (include.name.rfind("weft/", 0) != 0) continue;
    const std::string to = fs::path(include.name.substr(5)).parent_path().generic_string();
    const bool is_choice = include.file.extension() == ".cpp" && to.rfind(from + "/", 0) == 0;
    if (to != from && !is_choice) graph[from][to].insert(include.file.filename());
  }
  return graph;
}

TEST(Layout, FoldersIncludeOnlyThoseAboveThem) {
  ASSERT_GT(includes().size(), 500u) << "the sources were not found";
  for (const Include& include : includes()) {
    if (include.name.rfind("weft/", 0) != 0) continue;
    const std::string from = include.file.begin()->string();
    const std::string to = include.name.substr(5, include.name.find('/', 5) - 5);
    EXPECT_TRUE(from == to || allowed.at(from).count(to)) << include.file << " includes " << include.name;
    EXPECT_TRUE(fs::exists(root() / include.name.substr(5))) << include.file << " includes " << include.name;
  }
}

TEST(Layout, FoldersAndSubfoldersIncludeEachOtherInNoCircle) {
  const Graph graph = include_graph();
  for (const auto& [from, targets] : graph) {
    std::string line = from + ":";
    for (const auto& [to, files] : targets) line += " " + to;
    std::cout << line << '\n';
  }
  std::map<std::string, bool> done;  // false: on the way from the start to here
  std::vector<std::string> way;
  const std::function<void(const std::string&)> visit = [&](const std::string& folder) {
    const auto [place, is_new] = done.emplace(folder, false);
    if (!is_new && place->second) return;
    if (!is_new) {
      std::string circle = folder;
      for (auto at = std::find(way.begin(), way.end(), folder); at != way.end(); ++at) {
        const std::string& next = at + 1 == way.end() ? folder : *(at + 1);
        circle += " -> " + next + " (" + *graph.at(*at).at(next).begin() + ")";
      }
      ADD_FAILURE() << circle;
      return;
    }
    way.push_back(folder);
    if (const auto found = graph.find(folder); found != graph.end())
      for (const auto& [to, files] : found->second) visit(to);
    way.pop_back();
    done[folder] = true;
  };
  for (const auto& [folder, targets] : graph) visit(folder);
}

TEST(Layout, ForeignHeadersStayWhereTheyBelong) {
  const std::map<std::string, std::vector<std::string>> homes = {
      {"ucp/", {"transport/ucx/"}},
      {"ucs/", {"transport/ucx/"}},
      {"uct/", {"transport/ucx/"}},
      {"cuda", {"/cuda/"}},
      {"cublas", {"/cuda/"}},
      {"asio", {"transport/rendezvous/", "launch/"}},
      {"spdlog/", {"base/log.cpp"}},
      {"openssl/", {"base/sha256.cpp", "training/config/binary_scalar.cpp", "transport/rendezvous/"}},
      {"Random123/", {"base/random.cpp"}},
      {"CLI/", {"launch/"}},
      {"yaml-cpp/", {"training/config/"}},
  };
  for (const Include& include : includes())
    for (const auto& [prefix, places] : homes) {
      if (include.name.rfind(prefix, 0) != 0) continue;
      const std::string file = include.file.generic_string();
      EXPECT_TRUE(
          std::any_of(places.begin(), places.end(),
                      [&](const std::string& place) { return file.find(place) != std::string::npos; }))
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
      "transport/rendezvous/connection.h", "transport/rendezvous/roll.h", "transport/rendezvous/session.h"};
  for (const Include& include : includes()) {
    if (include.file.extension() != ".h" || private_headers.count(include.file.generic_string())) continue;
    if (include.name == "nlohmann/json_fwd.hpp") continue;  // names alone
    for (const std::string slow : {"asio", "spdlog/", "CLI/", "yaml-cpp/", "nlohmann/"})
      EXPECT_NE(include.name.rfind(slow, 0), 0u) << include.file << " includes " << include.name;
  }
}

TEST(Layout, EveryFolderHasAReadmeOfAPage) {
  std::vector<std::string> folders = {"configs", "tests", "bench", "examples", "docs"};
  for (const auto& [folder, unused] : allowed)
    if (fs::exists(root() / folder)) folders.push_back(folder);
  for (const std::string& folder : folders) {
    std::ifstream readme(root() / folder / "README.md");
    EXPECT_TRUE(readme) << folder;
    std::size_t lines = 0;
    for (std::string line; std::getline(readme, line);) ++lines;
    EXPECT_LE(lines, 60u) << folder << "/README.md is longer than a page";
  }
}

/// Whether a comment's or README's word for a file names one: by its path from the root or from the folder of
/// the text, or by its last parts anywhere in the tree.
class KnownFiles {
 public:
  KnownFiles() {
    for (const auto& entry : fs::directory_iterator(root())) {
      if (!entry.is_directory()) {
        add(entry.path().filename());
      } else if (const std::string name = entry.path().filename(); name[0] != '.' && name != "build") {
        for (const auto& file : fs::recursive_directory_iterator(entry))
          add(fs::relative(file.path(), root()));
      }
    }
  }
  [[nodiscard]] bool has(const std::string& name) const { return names_.count(name) > 0; }

 private:
  void add(const fs::path& file) {
    fs::path end;
    for (auto part = file.end(); part != file.begin();) {
      end = end.empty() ? *--part : *--part / end;
      names_.insert(end.generic_string());
    }
  }
  std::set<std::string> names_;
};

TEST(Layout, CommentsCiteFilesOfTheTree) {
  const KnownFiles known;
  const std::regex cited(R"((?:weft/)?([A-Za-z0-9_][A-Za-z0-9_./-]*\.(?:h|cpp|cu|cuh|md|py|sh)))");
  std::size_t citations = 0;
  std::vector<fs::path> files;
  for (const std::string folder : {"base", "tensor", "scheduling", "transport", "actors", "model",
                                   "tokenizer", "training", "launch", "tests", "bench", "examples"}) {
    const auto more = sources(folder);
    files.insert(files.end(), more.begin(), more.end());
    if (fs::exists(root() / folder / "README.md")) files.push_back(fs::path(folder) / "README.md");
  }
  for (const fs::path& path : files) {
    std::ifstream file(root() / path);
    std::string line;
    for (int number = 1; std::getline(file, line); ++number) {
      const std::size_t comment = path.extension() == ".md" ? 0 : line.find("// ");
      if (comment == std::string::npos) continue;
      const std::string text = line.substr(comment);
      for (std::sregex_iterator at(text.begin(), text.end(), cited), end; at != end; ++at) {
        const char before = at->position() == 0 ? ' ' : text[static_cast<std::size_t>(at->position()) - 1];
        if (before == '*' || before == '_' || before == '/' || before == '.') continue;  // a pattern
        ++citations;
        EXPECT_TRUE(known.has((*at)[1])) << path << ":" << number << ": there is no " << (*at)[1];
      }
      EXPECT_EQ(text.find("DESI"
                          "GN"),
                std::string::npos)
          << path << ":" << number;
    }
  }
  EXPECT_GT(citations, 50u);
}

}  // namespace
