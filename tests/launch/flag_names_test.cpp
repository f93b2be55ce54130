#include "weft/launch/flag_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::vector<std::string> known_flags{"--run-dir", "--pipeline_parallel_schedule", "--set"};

std::vector<std::string> spelled(std::vector<std::string> arguments) {
  spell_flags(arguments, known_flags);
  return arguments;
}

std::string refusal(const std::string& argument) {
  try {
    (void)spelled({argument});
  } catch (const UsageError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(FlagNames, MayBeWrittenWithDashesOrUnderscores) {
  EXPECT_THAT(spelled({"--run_dir", "a_b", "--pipeline-parallel-schedule=x-y_z", "--set", "a_b.c-d=1"}),
              ElementsAre("--run-dir", "a_b", "--pipeline_parallel_schedule=x-y_z", "--set", "a_b.c-d=1"));
}

TEST(FlagNames, AreLeftAloneBehindTwoDashes) {
  EXPECT_THAT(spelled({"--", "--run_dir", "--other"}), ElementsAre("--", "--run_dir", "--other"));
}

TEST(FlagNames, AreRefusedWithTheNearestOneWhenUnknown) {
  EXPECT_EQ(refusal("--run-dirs=x"), "unknown option '--run-dirs'; did you mean '--run-dir'?");
  EXPECT_THAT(refusal("--completely-different"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(refusal("--completely-different"), HasSubstr("--completely-different"));
}

TEST(FlagNames, AreNamedWhenTheirValueIsEmpty) {
  const auto refusal_of = [](const std::vector<std::string>& arguments) -> std::string {
    try {
      refuse_empty_values(arguments);
    } catch (const UsageError& e) {
      return e.what();
    }
    return "accepted";
  };
  EXPECT_EQ(refusal_of({"train", "--resume", ""}), "--resume: the value is empty");
  EXPECT_EQ(refusal_of({"train", "--resume=", "x"}), "--resume: the value is empty");
  EXPECT_EQ(refusal_of({"train", "--resume", "x", "--set=a=", "--set", "b=", "--dry-run"}), "accepted");
  EXPECT_EQ(refusal_of({"launch", "--", "program", "--flag", "", "--other="}), "accepted");
  EXPECT_EQ(refusal_of({}), "accepted");
}

TEST(CommandNames, AreRefusedWithTheNearestOneAndTheList) {
  const std::vector<std::string> commands{"train", "plan"};
  EXPECT_NO_THROW(check_command("plan", commands));
  try {
    check_command("plam", commands);
    FAIL() << "accepted";
  } catch (const UsageError& e) {
    EXPECT_STREQ(e.what(), "unknown command 'plam'; did you mean 'plan'? (commands: train, plan)");
  }
}

}  // namespace
}  // namespace weft
