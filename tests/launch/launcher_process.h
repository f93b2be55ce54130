#pragma once
// A launcher as a child process of the test, with its output and the processes it leaves.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "weft/launch/job.h"

namespace weft {

struct Outcome {
  int status = -1;  ///< exit status; 128 + n when killed by signal n; 99 when supervise() threw
  std::string out;
  std::string err;
};

class LauncherTest : public testing::Test {
 protected:
  LauncherTest();
  ~LauncherTest() override;

  Outcome run(const Job& job);
  void start(const Job& job);
  void signal_launcher(int number) const;
  /// Until stdout has held `text`.
  void wait_for_output(const std::string& text);
  /// Until no signal is pending at the launcher.
  void wait_until_signal_was_taken() const;
  /// Closes the reading ends of the launcher's output.
  void stop_reading();
  Outcome finish();

  /// A folder where ranks leave a file named after each process.
  [[nodiscard]] std::string pids() const { return folder_.string(); }
  /// All of the `expected` processes noted in the folder have ended, or do so soon.
  void expect_nothing_left(std::size_t expected) const;

 private:
  void read_some();

  std::filesystem::path folder_;
  pid_t launcher_ = -1;
  int out_ = -1;
  int err_ = -1;
  Outcome outcome_;
};

}  // namespace weft
