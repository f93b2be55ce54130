#include "weft/tensor/tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

TEST(Shape, KnowsItsElementsAndHowItIsWritten) {
  EXPECT_EQ((Shape{2, 3, 5}).elements(), 30u);
  EXPECT_EQ((Shape{2, 3, 5}).str(), "[2, 3, 5]");
  EXPECT_EQ(Shape().elements(), 1u) << "a scalar";
  EXPECT_EQ(Shape().str(), "[]");
  EXPECT_EQ((Shape{7, 0}).elements(), 0u);
}

TEST(Shape, IsEqualOnlyWithTheSameDimensions) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_FALSE((Shape{2}) == (Shape{2, 0}));
}

TEST(Shape, RefusesSevenDimensionsAndElementsWithoutNumber) {
  EXPECT_NO_THROW((Shape{1, 1, 1, 1, 1, 1}));
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1}), Error);
  const std::uint32_t most = 0xffffffff;
  EXPECT_THROW(static_cast<void>((Shape{most, most, most}).elements()), Error);
  EXPECT_THROW(static_cast<void>((Shape{1u << 31, 1u << 31, 2}).elements()), Error) << "2^63";
  EXPECT_EQ((Shape{1u << 31, 1u << 31}).elements(), std::uint64_t{1} << 62);
}

TEST(DType, HasASizeAndANameAndNoneForOtherNumbers) {
  for (std::uint8_t number = 1; number <= 7; ++number) {
    EXPECT_GT(dtype_size(static_cast<DType>(number)), 0u);
    EXPECT_NE(dtype_name(static_cast<DType>(number)), "none");
  }
  for (const std::uint8_t number : {0, 8, 255}) EXPECT_EQ(dtype_size(static_cast<DType>(number)), 0u);
  EXPECT_EQ((TensorSpec{DType::bfloat16, Shape{3, 4}}).bytes(), 24u);
}

class TensorTest : public testing::Test {
 protected:
  Arena arena{BlockPool::arena_bytes(96, 9), "a test"};
  BlockPool pool{arena, 96, 9};
  Tensor tensor() { return Tensor(pool.acquire(), DType::float32, Shape{2, 3}); }
};

TEST_F(TensorTest, IsAShapeOverABufferThatMayBeLarger) {
  const Tensor small = tensor();
  EXPECT_EQ(small.bytes(), 24u);
  EXPECT_EQ(small.as<float>(), reinterpret_cast<float*>(small.data()));
  EXPECT_EQ(Tensor(pool.acquire(), DType::float32, Shape{24}).bytes(), 96u);
  EXPECT_EQ(Tensor().bytes(), 0u);
  EXPECT_FALSE(Tensor());
}

TEST_F(TensorTest, ThatDoesNotFitItsBufferIsRefusedWithItsShape) {
  try {
    Tensor(pool.acquire(), DType::float32, Shape{5, 5});
    ADD_FAILURE() << "fits";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("[5, 5]"));
  }
  EXPECT_EQ(pool.available(), 9u);
}

TEST_F(TensorTest, ListsHoldEightAndGiveTheirMemoryBack) {
  TensorList list;
  for (std::size_t i = 0; i < TensorList::capacity; ++i) list.push_back(tensor());
  EXPECT_THROW(list.push_back(tensor()), Error);
  EXPECT_EQ(list.bytes(), 8u * 24);
  TensorList moved(std::move(list));
  EXPECT_EQ(moved.size(), 8u);
  EXPECT_EQ(pool.available(), 1u);
  moved.clear();
  EXPECT_TRUE(moved.empty());
  EXPECT_EQ(pool.available(), 9u);
}

}  // namespace
}  // namespace weft
