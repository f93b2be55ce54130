#include "weft/launch/hosts/handed_config.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "weft/base/error.h"

namespace weft {
namespace {

/// WEFT_CONFIG_FD as a child would have it, until the end of the test.
class HandedConfigTest : public testing::Test {
 protected:
  ~HandedConfigTest() override { unsetenv("WEFT_CONFIG_FD"); }
  static void set(const std::string& value) { setenv("WEFT_CONFIG_FD", value.c_str(), 1); }
};

TEST_F(HandedConfigTest, IsReadAsItWasWrittenByEveryoneWhoInheritsIt) {
  for (const std::string& text : {std::string(), std::string("a: 1\n"), std::string(1 << 20, '\xff')}) {
    const HandedConfig handed(text);
    const auto [name, number] = handed.variable();
    EXPECT_EQ(name, "WEFT_CONFIG_FD");
    EXPECT_EQ(std::stoi(number), handed.descriptor());
    fcntl(handed.descriptor(), F_SETFD, 0);  // as in a child
    set(number);
    EXPECT_EQ(handed_config(), text);
    EXPECT_EQ(handed_config(), text);
    EXPECT_NE(fcntl(std::stoi(number), F_GETFD) & FD_CLOEXEC, 0) << "it goes no further than to ranks";
    EXPECT_EQ(write(std::stoi(number), "x", 1), -1) << "nobody can change it";
  }
}

TEST_F(HandedConfigTest, IsAbsentWithoutTheVariable) { EXPECT_EQ(handed_config(), std::nullopt); }

TEST_F(HandedConfigTest, IsRefusedWhenTheVariableIsAStaleOne) {
  const int other = open("/dev/null", O_RDONLY | O_CLOEXEC);
  for (const std::string value : {"", "x", "3x", "-1", "99999", "99999999999999"}) {
    set(value);
    EXPECT_THROW((void)handed_config(), ConfigError) << value;
  }
  set(std::to_string(other));
  EXPECT_THROW((void)handed_config(), ConfigError);
  close(other);
}

}  // namespace
}  // namespace weft
