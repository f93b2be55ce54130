// The bootstrap script at the root, in a tree of its own, with apt-get, dpkg-query, cmake, ninja and ctest
// that only note how they were called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>
#include "../support/paths.h"
#include "weft/tests/support/scratch_folder.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

const std::map<std::string, std::string> fake_programs{
    {"apt-get", R"x(echo "apt-get $*" >>"$NOTES"
case "$*" in
*update*) if [ -e "$TREE/locked" ]; then rm "$TREE/locked"; echo "E: Could not get lock /var/lib/apt/lists/lock"; exit 100; fi
  if [ -e "$TREE/offline" ]; then echo "E: Failed to fetch something"; exit 100; fi ;;
*install*) if [ -e "$TREE/no-packages" ]; then echo "first words"; echo "E: Unable to locate package"; exit 100; fi ;;
esac)x"},
    {"dpkg-query", R"x(cat "$TREE/installed")x"},
    {"id", R"x(cat "$TREE/uid")x"},
    {"sleep", R"x(echo "sleep $*" >>"$NOTES")x"},
    {"cmake", R"x(echo "cmake $*" >>"$NOTES"
if [ -e "$TREE/no-cmake" ]; then echo "CMake Error: no UCX"; exit 1; fi
mkdir "$TREE/busy" || echo OVERLAP >>"$NOTES"
/bin/sleep 0.1
rmdir "$TREE/busy"
while [ $# -gt 0 ]; do [ "$1" = --preset ] && { mkdir -p "$TREE/build/$2"; touch "$TREE/build/$2/build.ninja"; }; shift; done)x"},
    {"ninja", R"x(echo "ninja $*" >>"$NOTES"
if [ -e "$TREE/no-build" ]; then echo "FAILED: x.o"; exit 1; fi
cp "$TREE/program" "$2/weft")x"},
    {"ctest", R"x(echo "ctest $*" >>"$NOTES"
echo "100% tests passed, 0 tests failed out of 3"
if grep -q "$(cat "$TREE/failing")" <<<"$*"; then exit 8; fi)x"},
};

class Bootstrap : public testing::Test {
 protected:
  struct Outcome {
    int status;
    std::string out;
    std::string err;
  };

  Bootstrap() {
    for (const char* one : {"tree/tests/actors", "tree/tests/base", "bin", "elsewhere"})
      fs::create_directories(folder_ / one);
    fs::copy_file(weft::test::source_dir() + "/weft", folder_ / "tree/weft");
    for (const auto& [fake, text] : fake_programs) program(folder_ / "bin" / fake, text);
    program(folder_ / "tree/program", R"(printf '<%s>' "$@"; printf '\n%s\n' "$PWD"; exit 7)");
    put("tests/actors/a_test.cpp", "");
    put("tests/base/b_test.cpp", "");
    put("CMakePresets.json", "{}");
    put("uid", "0\n");
    put("failing", "none");
    put("installed", all_packages());
  }

  void put(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ / "tree" / name) << text;
  }
  void hide(const std::string& fake) const { fs::remove(folder_ / "bin" / fake); }
  std::string path_of(const std::string& name) const { return (folder_ / name).string(); }

  static std::string text_of_all(std::initializer_list<std::string_view> parts) {
    std::string text;
    for (const std::string_view part : parts) text += part;
    return text;
  }
  /// For the shell.
  std::string quoted(const std::string& name) const { return text_of_all({"'", path_of(name), "'"}); }

  /// Runs a shell command with the fakes in front, from another folder.
  Outcome shell(const std::string& command) const {
    const std::string whole = text_of_all(
        {"env -i HOME=/nowhere TREE=", quoted("tree"), " NOTES=", quoted("notes"), " PATH=", quoted("bin"),
         ":", quoted("tools"), " /bin/bash -c \"cd ", quoted("elsewhere"), " && { ", command, "; } >",
         quoted("out"), " 2>", quoted("err"), "\""});
    const int status = std::system(whole.c_str());
    return {WEXITSTATUS(status), text_of("out"), text_of("err")};
  }
  Outcome weft(const std::string& arguments) const {
    return shell(text_of_all({quoted("tree/weft"), " ", arguments}));
  }

  /// How the fakes were called, a line each.
  std::string notes() const { return text_of("notes"); }
  std::string text_of(const std::string& name) const {
    std::stringstream text;
    text << std::ifstream(folder_ / name).rdbuf();
    return text.str();
  }

  void SetUp() override {
    // Only what a bare Debian has beside bash: coreutils, grep, flock.
    fs::create_directories(folder_ / "tools");
    for (const char* tool : {"bash", "dirname", "readlink", "mkdir", "mktemp", "rm", "rmdir", "cat", "cp",
                             "tail", "touch", "nproc", "echo", "grep", "flock", "env", "sed"}) {
      for (const char* place : {"/usr/bin/", "/bin/"}) {
        if (fs::exists(std::string(place) + tool)) {
          fs::create_symlink(std::string(place) + tool, folder_ / "tools" / tool);
          break;
        }
      }
    }
  }

  static std::string all_packages() {
    std::string text;
    std::ifstream script(weft::test::source_dir() + "/weft");
    std::string line;
    bool listing = false;
    while (std::getline(script, line)) {
      if (line.starts_with("packages_")) listing = true;
      if (!listing) continue;
      std::string words = line.substr(line.find('(') == std::string::npos ? 0 : line.find('(') + 1);
      if (words.find(')') != std::string::npos) {
        listing = false;
        words.erase(words.find(')'));
      }
      std::istringstream names(words);
      for (std::string one; names >> one;) text += one + " installed\n";
    }
    return text;
  }

 private:
  static void program(const fs::path& path, const std::string& text) {
    std::ofstream(path) << "#!/bin/bash\n" << text << "\n";
    fs::permissions(path, fs::perms::owner_all);
  }
  const test::ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
};

TEST_F(Bootstrap, BuildsOnceAndBecomesTheProgram) {
  const Outcome first = weft("train '--set' 'a b' ''");
  EXPECT_EQ(first.status, 7);
  EXPECT_EQ(first.out, text_of_all({"<train><--set><a b><>\n", path_of("elsewhere"), "\n"}));
  EXPECT_THAT(notes(),
              AllOf(HasSubstr(text_of_all({"cmake -S ", path_of("tree"), " --preset release\n"})),
                    HasSubstr(text_of_all({"ninja -C ", path_of("tree/build/release"), " weft_program\n"})),
                    Not(HasSubstr("apt-get"))));
  const std::string before = notes();
  EXPECT_EQ(weft("version").out, text_of_all({"<version>\n", path_of("elsewhere"), "\n"}));
  EXPECT_EQ(notes().substr(before.size()),
            text_of_all({"ninja -C ", path_of("tree/build/release"), " --quiet weft_program\n"}));
}

TEST_F(Bootstrap, SaysNothingWhenThereIsNothingToDo) {
  weft("version");
  EXPECT_THAT(weft("version").err, IsEmpty());
}

TEST_F(Bootstrap, ConfiguresAgainWhenThePresetsChange) {
  weft("version");
  const std::string before = notes();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // a file time apart
  put("CMakePresets.json", "{ }");
  weft("version");
  EXPECT_THAT(notes().substr(before.size()), HasSubstr("cmake"));
}

TEST_F(Bootstrap, BuildsAnewWhenTheTreeWasMoved) {
  weft("version");
  put("build/release/CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=" + path_of("tree") + "\n");
  std::string before = notes();
  EXPECT_THAT(weft("version").err, IsEmpty());
  EXPECT_THAT(notes().substr(before.size()), Not(HasSubstr("cmake")));
  put("build/release/CMakeCache.txt", "CMAKE_HOME_DIRECTORY:INTERNAL=/somewhere/else\n");
  before = notes();
  EXPECT_THAT(weft("version").err, HasSubstr("copied or moved"));
  EXPECT_THAT(notes().substr(before.size()), HasSubstr("cmake"));
}

TEST_F(Bootstrap, SaysWhoseTreeCannotBeBuilt) {
  put("build", "a file where the folder should be");
  const Outcome outcome = weft("test");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(StartsWith("weft: cannot write into "), Not(HasSubstr("line "))));
}

TEST_F(Bootstrap, WorksThroughALinkAndWithAnotherPreset) {
  EXPECT_EQ(
      shell(text_of_all({"/bin/ln -s ", quoted("tree/weft"), " w; WEFT_PRESET=debug ./w version"})).status,
      7);
  EXPECT_THAT(notes(), HasSubstr("--preset debug"));
}

TEST_F(Bootstrap, InstallsExactlyWhatIsMissing) {
  put("installed",
      "g++ installed\ncmake deinstalled\nninja-build installed\nlibasio-dev installed\nlibyaml-cpp-dev "
      "installed\n"
      "libspdlog-dev installed\nlibfmt-dev installed\nlibcli11-dev installed\nnlohmann-json3-dev "
      "installed\n"
      "librandom123-dev installed\nlibssl-dev installed\nfortunes installed\npkg-config installed\n"
      "libpcre2-dev installed\nlibsentencepiece-dev installed\nlibutf8proc-dev installed\n");
  const Outcome outcome = weft("version");
  EXPECT_EQ(outcome.status, 7);
  EXPECT_THAT(notes(),
              AllOf(HasSubstr("update\n"), HasSubstr("install --no-install-recommends cmake libucx-dev\n"),
                    HasSubstr("apt-get -y ")));
  EXPECT_THAT(outcome.err, HasSubstr("installing 2 packages: cmake libucx-dev"));
  EXPECT_THAT(outcome.out, StartsWith("<version>"));
}

TEST_F(Bootstrap, TellsAUserWithoutRootWhatToInstall) {
  put("installed", "g++ installed\n");
  put("uid", "1000\n");
  const Outcome outcome = weft("version");
  EXPECT_EQ(outcome.status, 2);
  EXPECT_THAT(outcome.err,
              HasSubstr("\n  sudo apt-get install -y --no-install-recommends cmake ninja-build "));
  EXPECT_EQ(notes(), "");
}

TEST_F(Bootstrap, ShowsTheLastWordsOfAptAndStops) {
  put("installed", "");
  put("offline", "");
  put("no-packages", "");
  const Outcome outcome = weft("version");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("E: Failed to fetch something"),
                                 HasSubstr("first words\nE: Unable to locate package")));
  EXPECT_THAT(notes(), Not(HasSubstr("cmake -S")));
}

TEST_F(Bootstrap, GoesOnWithOldPackageListsWhereTheyAreEnough) {
  put("installed", "");
  put("offline", "");
  EXPECT_EQ(weft("version").status, 7);
}

TEST_F(Bootstrap, WaitsForAnotherApt) {
  put("installed", "");
  put("locked", "");
  const Outcome outcome = weft("version");
  EXPECT_EQ(outcome.status, 7);
  EXPECT_THAT(outcome.err, HasSubstr("waiting for another apt to end"));
  EXPECT_THAT(notes(), HasSubstr("sleep 5"));
}

TEST_F(Bootstrap, LeavesPackagesAloneWhenToldTo) {
  put("installed", "");
  EXPECT_EQ(shell(text_of_all({"WEFT_NO_INSTALL=1 ", quoted("tree/weft"), " version"})).status, 7);
  EXPECT_THAT(notes(), Not(HasSubstr("apt-get")));
}

TEST_F(Bootstrap, LeavesPackagesAloneWhereThereIsNoApt) {
  put("installed", "");
  hide("apt-get");
  EXPECT_EQ(weft("version").status, 7);
}

TEST_F(Bootstrap, ShowsWhatCMakeMisses) {
  put("no-cmake", "");
  const Outcome outcome = weft("version");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("CMake Error: no UCX"));
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(Bootstrap, StopsWhenTheBuildFails) {
  put("no-build", "");
  const Outcome outcome = weft("version");
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("FAILED: x.o"), HasSubstr("the build failed")));
  EXPECT_THAT(outcome.out, IsEmpty());
}

TEST_F(Bootstrap, TakesTurnsWhenCalledTwiceAtOnce) {
  const std::string call = text_of_all({quoted("tree/weft"), " version"});
  shell(text_of_all({call, " & ", call, " & ", call, "; wait"}));
  EXPECT_THAT(notes(), Not(HasSubstr("OVERLAP")));
  const std::string text = notes();
  EXPECT_EQ(text.find("cmake -S"), text.rfind("cmake -S")) << "configured more than once";
}

TEST_F(Bootstrap, DoesNotHoldItsTurnWhileTheProgramRuns) {
  std::ofstream(path_of("tree/program")) << "#!/bin/bash\nflock -n \"$TREE/build/.lock\" echo free\n";
  EXPECT_EQ(weft("version").out, "free\n");
}

TEST_F(Bootstrap, TestsReleaseAndSanitizersAndEndsWithTheSummary) {
  const Outcome outcome = weft("test");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const std::string text = notes();
  for (const char* preset : {"release", "asan"}) {
    EXPECT_THAT(text, HasSubstr(text_of_all({"ctest --test-dir ", path_of("tree/build/"), preset, " -j "})));
    EXPECT_THAT(text, HasSubstr(text_of_all({"ninja -C ", path_of("tree/build/"), preset, "\n"})));
  }
  EXPECT_THAT(
      text,
      HasSubstr(text_of_all({"ninja -C ", path_of("tree/build/tsan"), " transport_tests actors_tests\n"})));
  EXPECT_THAT(text, HasSubstr("-LE ^full$ --no-tests=ignore -L ^(transport|actors)$\n"));
  EXPECT_THAT(outcome.out, EndsWith("100% tests passed, 0 tests failed out of 3\n"));
}

TEST_F(Bootstrap, TestsFailWhenAnyPresetFails) {
  put("failing", "build/release");
  EXPECT_EQ(weft("test").status, 1);
  EXPECT_THAT(notes(), HasSubstr("build/tsan"));
}

TEST_F(Bootstrap, TestsOneFolderOrWhatMatches) {
  weft("test base");
  EXPECT_THAT(notes(), AllOf(HasSubstr("build/release base_tests weft_program\n"),
                             HasSubstr("-LE ^full$ -L ^base$ --no-tests=error\n"), Not(HasSubstr("tsan"))));
  weft("test actors");
  EXPECT_THAT(notes(), AllOf(HasSubstr("-L ^actors$ --no-tests=error\n"),
                             HasSubstr("-L ^actors$ --no-tests=ignore -L ^(transport|actors)$\n")));
  weft("test 'Roll.*'");
  EXPECT_THAT(notes(), HasSubstr("-R Roll.* --no-tests=error\n"));
  weft("test full");
  EXPECT_THAT(notes(), HasSubstr("--output-on-failure --no-tests=error\n"));
  EXPECT_EQ(weft("test one two").status, 2);
}

TEST_F(Bootstrap, ShowsTheHashesOfTheExactnessMatrix) {
  put("failing", "none");
  const Outcome outcome = weft("test exactness");
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "100% tests passed, 0 tests failed out of 3\n");
  EXPECT_THAT(notes(), AllOf(HasSubstr("-V -LE ^full$ -R exactness"), Not(HasSubstr("asan"))));
  put("failing", "exactness");
  EXPECT_EQ(weft("test exactness").status, 1);
}

}  // namespace
}  // namespace weft
