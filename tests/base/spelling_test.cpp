#include "weft/base/text/spelling.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace weft {
namespace {

constexpr std::array<std::string_view, 4> names = {"train_steps", "data_stages", "pp", "tp"};

TEST(NearestSpelling, FindsMissingAddedAndChangedLetters) {
  EXPECT_EQ(nearest_spelling("train_stepz", names), "train_steps");
  EXPECT_EQ(nearest_spelling("trainsteps", names), "train_steps");
  EXPECT_EQ(nearest_spelling("ppp", names), "pp");
}

TEST(NearestSpelling, FindsTheNameThatWasCutShort) {
  EXPECT_EQ(nearest_spelling("data", names), "data_stages");
}

TEST(NearestSpelling, FindsNothingForOtherWords) {
  EXPECT_EQ(nearest_spelling("nonsense", names), "");
  EXPECT_EQ(nearest_spelling("", names), "");
  EXPECT_EQ(nearest_spelling(std::string(100'000, 'a'), names), "");
  EXPECT_EQ(nearest_spelling("x", {}), "");
}

}  // namespace
}  // namespace weft
