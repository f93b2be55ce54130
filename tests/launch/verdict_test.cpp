#include "weft/launch/verdict.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace std::chrono_literals;

class VerdictTest : public testing::Test {
 protected:
  std::uint32_t rank_at(std::chrono::milliseconds after) const {
    const auto cause = verdict_.cause(start_ + after);
    return cause ? cause->rank : 99;
  }
  Verdict::Time start_{std::chrono::hours(1)};
  Verdict verdict_;
};

TEST_F(VerdictTest, BelievesWhatIsCertainAtOnceAndForGood) {
  EXPECT_EQ(rank_at(0ms), 99U);
  verdict_.convict({1, "killed"});
  verdict_.convict({2, "exited"});
  EXPECT_EQ(rank_at(0ms), 1U);
  EXPECT_FALSE(verdict_.deadline());
}

TEST_F(VerdictTest, PrefersALaterCertaintyToAnEarlierSuspicion) {
  verdict_.suspect({0, "lost rank 1"}, start_);
  EXPECT_EQ(rank_at(199ms), 99U);
  verdict_.convict({1, "killed"});
  EXPECT_EQ(rank_at(199ms), 1U);
  EXPECT_EQ(rank_at(1s), 1U);
}

TEST_F(VerdictTest, BelievesTheFirstSuspicionWhenNothingBetterComes) {
  verdict_.suspect({0, "lost rank 1"}, start_);
  verdict_.suspect({2, "lost rank 1"}, start_ + 100ms);
  EXPECT_EQ(verdict_.deadline(), start_ + Verdict::patience);
  EXPECT_EQ(rank_at(Verdict::patience), 0U);
}

}  // namespace
}  // namespace weft
