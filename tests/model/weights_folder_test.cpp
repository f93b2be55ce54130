#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "weft/base/error.h"
#include "weft/base/files/durable_file.h"
#include "weft/base/files/durable_folder.h"
#include "weft/tests/support/scratch_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class WriteFolder : public testing::Test {
 protected:
  static std::set<std::string> names(const fs::path& folder) {
    std::set<std::string> all;
    for (const auto& entry : fs::directory_iterator(folder)) all.insert(entry.path().filename());
    return all;
  }
  static void fill(const fs::path& folder) {
    for (const char* name : {"config.json", "weights"}) {
      DurableFile file(folder / name);
      file.write(name);
      file.finish();
    }
  }
  static std::string problem_of(const fs::path& target) {
    try {
      write_folder(target, "config.json", fill);
    } catch (const CheckpointError& e) {
      return e.what();
    }
    return "";
  }

  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
  const std::set<std::string> whole_ = {"config.json", "weights"};
};

TEST_F(WriteFolder, FillsWhateverStandsForAnEmptyFolder) {
  fs::create_directories(folder_ / "empty");
  fs::create_directories(folder_ / "behind");
  fs::create_directory_symlink("behind", folder_ / "link");
  fs::create_directories(folder_ / "here");
  for (const char* target : {"new", "slash/", "dot/.", "deep/below", "empty", "link", "here/."}) {
    EXPECT_EQ(problem_of(folder_ / target), "") << target;
    EXPECT_EQ(names(folder_ / target), whole_) << target;
  }
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  fs::create_directories(folder_ / "current");
  const fs::path before = fs::current_path();
  fs::current_path(folder_ / "current");
  EXPECT_EQ(problem_of("."), "");
  fs::current_path(before);
  EXPECT_EQ(names(folder_ / "current"), whole_);
}

TEST_F(WriteFolder, RefusesWhatIsThereBeforeTheWork) {
  std::ofstream(folder_ / "file") << "";
  fs::create_directories(folder_ / "full");
  std::ofstream(folder_ / "full" / ".hidden") << "";
  fs::create_directory_symlink("nowhere", folder_ / "link");
  const auto never = [](const fs::path&) { ADD_FAILURE() << "worked for nothing"; };
  for (const char* target : {"file", "full", "link", "file/below"})
    EXPECT_THROW(write_folder(folder_ / target, "config.json", never), CheckpointError) << target;
  EXPECT_THAT(problem_of(folder_ / "full"), HasSubstr("not an empty folder, it holds .hidden"));
}

TEST_F(WriteFolder, MakesTheLastFileTheSignOfBeingWhole) {
  fs::create_directories(folder_ / "target");
  // the last file cannot be moved: nothing stays
  EXPECT_THROW(write_folder(folder_ / "target", "absent", fill), CheckpointError);
  EXPECT_TRUE(fs::is_empty(folder_ / "target"));
}

TEST_F(WriteFolder, LeavesNothingWhereAFileMayNotGrow) {
  fs::create_directories(folder_ / "empty");
  const auto write_much = [](const fs::path& to) {
    DurableFile file(to / "weights");
    file.write(std::string(100'000, 'x'));
    file.finish();
  };
  const pid_t child = fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    int named = 0;
    for (const char* target : {"empty", "new"}) try {
        write_folder(folder_ / target, "weights", write_much);
      } catch (const CheckpointError& e) {
        const std::string text = e.what();
        named += text.find("/weights: cannot be written: File too large") != std::string::npos;
      }
    ::_exit(named);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_EQ(names(folder_), std::set<std::string>{"empty"});
  EXPECT_TRUE(fs::is_empty(folder_ / "empty"));
}

TEST_F(WriteFolder, AFolderIsWritableWhenAFileCouldBeMadeInIt) {
  for (const char* path : {"", "new", "new/below/", "new/."})
    EXPECT_NO_THROW(check_writable_folder(folder_ / path));
  std::ofstream(folder_ / "file") << "";
  for (const fs::path& path :
       {folder_ / "file", folder_ / "file" / "below", fs::path("/proc/nope"), fs::path("/proc")})
    EXPECT_THROW(check_writable_folder(path), CheckpointError) << path;
  EXPECT_EQ(names(folder_), std::set<std::string>{"file"});
}

}  // namespace
}  // namespace weft
