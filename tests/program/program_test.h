#pragma once
// The built program, run in a folder that each test has for itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "weft/tests/support/scratch_folder.h"

namespace weft {

/// How a command ended, and its words.
struct Outcome {
  int status;  ///< 128 + number when a signal ended it
  std::string out;
  std::string err;
};

/// The folder holds tiny.yaml; out and err are of the last command.
class ProgramTest : public testing::Test {
 protected:
  ProgramTest() { std::filesystem::copy_file(WEFT_TINY_CONFIG, folder_ / "tiny.yaml"); }

  [[nodiscard]] std::string path() const { return folder_.string(); }
  void put(const std::string& name, const std::string& text) const { std::ofstream(folder_ / name) << text; }
  [[nodiscard]] std::string text_of(const std::string& name) const {
    std::ifstream file(folder_ / name);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  [[nodiscard]] bool exists(const std::string& name) const { return std::filesystem::exists(folder_ / name); }

  /// What a shell makes of `line`, in the folder or one below it.
  Outcome shell(const std::string& line, const std::string& where = ".") const {
    const std::string command =
        "cd " + path() + " && cd " + where + " && { " + line + "\n} >" + path() + "/out 2>" + path() + "/err";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of("out"), text_of("err")};
  }
  Outcome weft(const std::string& arguments) const { return shell(WEFT_PROGRAM " " + arguments); }

  const test::ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path();
};

}  // namespace weft
