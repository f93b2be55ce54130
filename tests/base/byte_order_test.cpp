#include "weft/base/byte_order.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace weft {
namespace {

TEST(ByteOrder, PutsTheLowestByteFirst) {
  std::array<std::byte, 8> bytes{};
  store_le(bytes.data(), std::uint32_t{0x01020304});
  EXPECT_EQ(bytes[0], std::byte{4});
  EXPECT_EQ(bytes[3], std::byte{1});
  EXPECT_EQ(bytes[4], std::byte{0}) << "four bytes and no more";
}

TEST(ByteOrder, NeedsNoAlignmentAndKeepsEveryValue) {
  std::array<std::byte, 16> bytes{};
  for (std::size_t offset = 0; offset <= 8; ++offset) {
    store_le(bytes.data() + offset, std::uint64_t{0xfedcba9876543210});
    EXPECT_EQ(load_le<std::uint64_t>(bytes.data() + offset), 0xfedcba9876543210u);
    store_le(bytes.data() + offset, -0.1);
    EXPECT_EQ(load_le<double>(bytes.data() + offset), -0.1);
    store_le(bytes.data() + offset, std::int16_t{-2});
    EXPECT_EQ(load_le<std::int16_t>(bytes.data() + offset), -2);
  }
}

}  // namespace
}  // namespace weft
