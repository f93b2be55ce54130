#include "weft/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

class LogTest : public testing::Test {
 protected:
  LogTest() : file_(fs::temp_directory_path() / ("weft_log_test_" + std::to_string(getpid()))) {}
  ~LogTest() override {
    log::start(log::Level::info, "");
    fs::remove(file_);
  }
  [[nodiscard]] std::string written() const {
    std::ifstream file(file_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

  fs::path file_;
};

TEST_F(LogTest, WritesMessagesOfItsLevelAndAboveWithThePrefix) {
  log::start(log::Level::info, "rank 1", file_, false);
  log::debug("small talk");
  log::info("step 3");
  log::error("all is lost");
  EXPECT_EQ(written(), "[info|rank 1] step 3\n[error|rank 1] all is lost\n") << "on disk at once";
}

TEST_F(LogTest, AppendsToAFileThatIsThere) {
  for (const char* message : {"one", "two"}) {
    log::start(log::Level::debug, "", file_, false);
    log::debug(message);
  }
  EXPECT_EQ(written(), "[debug] one\n[debug] two\n");
}

TEST_F(LogTest, WritesTextThatLooksLikeAFormatAsItIs) {
  log::start(log::Level::info, "", file_, false);
  log::info("{} {0} %s %v");
  EXPECT_EQ(written(), "[info] {} {0} %s %v\n");
}

TEST_F(LogTest, KeepsLinesOfThreadsApart) {
  log::start(log::Level::info, "", file_, false);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([] {
      for (int line = 0; line < 50; ++line) log::info("0123456789");
    });
  for (std::thread& thread : threads) thread.join();
  std::string expected;
  for (int line = 0; line < 200; ++line) expected += "[info] 0123456789\n";
  EXPECT_EQ(written(), expected);
}

TEST_F(LogTest, NamesAFileThatCannotBeOpened) {
  try {
    log::start(log::Level::info, "", "/proc/no/such/folder/log", false);
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("/proc/no/such/folder/log"));
  }
}

TEST(PeerFailure, KnowsTheRankAndIsAnErrorOfWeft) {
  try {
    throw PeerFailure(3, "rank 3 is gone");
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "rank 3 is gone");
    ASSERT_NE(dynamic_cast<const PeerFailure*>(&error), nullptr);
    EXPECT_EQ(dynamic_cast<const PeerFailure&>(error).rank(), 3u);
  }
}

}  // namespace
}  // namespace weft
