#include "weft/actors/gradient_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class GradientRange : public testing::Test {
 protected:
  Parameter parameter(const char* name, std::uint32_t elements) {
    Parameter made;
    made.name = name;
    made.shape = Shape{elements};
    return made;
  }
  float* take(const Parameter& parameter) {
    return reinterpret_cast<float*>(arena_.take(parameter.shape.elements() * sizeof(float)));
  }
  Arena arena_{4096, "a test"};
  std::vector<Parameter> parameters_{parameter("a", 5), parameter("b", 16), parameter("c", 3)};
};

std::string problem_of(std::span<const Parameter> parameters) {
  try {
    static_cast<void>(gradient_range(7, parameters));
    return "none";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST_F(GradientRange, GoesFromTheFirstGradientToTheEndOfTheLastInAnyOrder) {
  for (const std::size_t i : {2u, 0u, 1u}) parameters_[i].gradient = take(parameters_[i]);
  const std::span<float> range = gradient_range(0, parameters_);
  EXPECT_EQ(range.data(), parameters_[2].gradient);
  EXPECT_EQ(range.size(), 16u + 16 + 16);
  EXPECT_TRUE(gradient_range(0, {}).empty());
}

TEST_F(GradientRange, NamesStageAndParametersWhereSomethingLiesBetween) {
  for (Parameter& p : parameters_) {
    p.value = reinterpret_cast<std::byte*>(take(p));
    p.gradient = take(p);
  }
  EXPECT_THAT(problem_of(parameters_),
              AllOf(HasSubstr("stage 7"), HasSubstr("gradients of a and b do not follow one another")));
}

TEST_F(GradientRange, NamesParametersThatShareAGradientOrHaveNone) {
  for (Parameter& p : parameters_) p.gradient = take(p);
  parameters_[1].gradient = parameters_[0].gradient + 4;
  EXPECT_THAT(problem_of(parameters_), HasSubstr("gradients of a and b share memory"));
  parameters_[1].gradient = nullptr;
  EXPECT_THAT(problem_of(parameters_), HasSubstr("b has no gradient after Stage::allocate"));
}

}  // namespace
}  // namespace weft
