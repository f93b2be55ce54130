#include "weft/tensor/arena.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "weft/base/error.h"

namespace weft {
namespace {

using testing::HasSubstr;

TEST(Arena, IsZeroAndHandsOutAlignedRangesThatDoNotMeet) {
  Arena arena(10'000, "a test");
  std::byte* end = nullptr;
  for (const std::size_t bytes : {1UL, 64UL, 65UL, 0UL, 1000UL}) {
    std::byte* range = arena.take(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(range) % arena_alignment, 0u);
    EXPECT_GE(range, end);
    end = range + bytes;
    EXPECT_TRUE(std::all_of(range, end, [](std::byte b) { return b == std::byte{0}; }));
    std::fill(range, end, std::byte{1});
  }
  EXPECT_EQ(arena.used(), 64u + 64 + 128 + 0 + 1024);
}

TEST(Arena, ThatIsUsedUpSaysWhatItWasFor) {
  Arena arena(128, "activation slots");
  static_cast<void>(arena.take(100));
  try {
    static_cast<void>(arena.take(1));
    ADD_FAILURE() << "taken beyond the end";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("activation slots"));
  }
}

TEST(Arena, LargerThanTheMachineSaysWhatItWasFor) {
  try {
    Arena arena(std::size_t{1} << 60, "weights");
    ADD_FAILURE() << "allocated";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("no memory for weights"));
  }
}

TEST(Arena, OfNothingIsEmpty) {
  Arena arena(0, "nothing");
  EXPECT_EQ(arena.size(), 0u);
  EXPECT_THROW(static_cast<void>(arena.take(1)), Error);
}

TEST(Arena, OnADeviceThisBuildDoesNotHaveIsRefused) {
  try {
    Arena arena(64, "weights", Device{DeviceKind::cuda, 3});
    ADD_FAILURE() << "allocated";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no memory for weights on device cuda:3"));
  }
}

TEST(Arena, KeepsItsMemoryWhenItMoves) {
  Arena arena(128, "a test");
  std::byte* range = arena.take(64);
  Arena moved(std::move(arena));
  range[0] = std::byte{7};
  EXPECT_EQ(moved.used(), 64u);
  EXPECT_EQ(moved.take(64), range + 64);
}

class Pool : public testing::Test {
 protected:
  static constexpr std::uint32_t blocks = 5;
  Arena arena{BlockPool::arena_bytes(100, blocks), "a test"};
  BlockPool pool{arena, 100, blocks};
};

TEST_F(Pool, HasAsManyDifferentBlocksAsItSays) {
  std::vector<Buffer> held;
  std::set<std::byte*> addresses;
  while (Buffer buffer = pool.acquire()) {
    EXPECT_EQ(buffer.size(), 100u);
    addresses.insert(buffer.data());
    held.push_back(std::move(buffer));
  }
  EXPECT_EQ(addresses.size(), blocks);
  EXPECT_EQ(pool.available(), 0u);
  held.clear();
  EXPECT_EQ(pool.available(), blocks);
  EXPECT_EQ(pool.peak_in_use(), blocks);
}

TEST_F(Pool, TouchesNoMoreBlocksThanAreInUseAtOnce) {
  std::set<std::byte*> addresses;
  for (int i = 0; i < 20; ++i) {
    const Buffer first = pool.acquire();
    const Buffer second = pool.acquire();
    addresses.insert({first.data(), second.data()});
  }
  EXPECT_EQ(addresses.size(), 2u);
  EXPECT_EQ(pool.peak_in_use(), 2u);
}

TEST_F(Pool, GetsABlockBackOnceHoweverBuffersMove) {
  Buffer first = pool.acquire();
  Buffer second(std::move(first));
  first.release();
  EXPECT_EQ(pool.available(), blocks - 1);
  first = std::move(second);
  Buffer& itself = first;
  first = std::move(itself);
  EXPECT_TRUE(first);
  EXPECT_EQ(pool.available(), blocks - 1);
  first = pool.acquire();  // the old block goes back
  EXPECT_EQ(pool.available(), blocks - 1);
  first.release();
  first.release();
  EXPECT_EQ(pool.available(), blocks);
}

TEST_F(Pool, TellsItsOwnerOfEveryRelease) {
  std::vector<std::uint32_t> tags;
  pool.on_release(
      [](void* owner, std::uint32_t tag) { static_cast<std::vector<std::uint32_t>*>(owner)->push_back(tag); },
      &tags, 42);
  Buffer buffer = pool.acquire();
  EXPECT_TRUE(tags.empty());
  buffer.release();
  EXPECT_EQ(tags, std::vector<std::uint32_t>{42});
}

TEST_F(Pool, OwnsNothingOfABorrowedBuffer) {
  std::byte memory[8];
  {
    const Buffer buffer = Buffer::borrowed(memory, sizeof(memory));
    EXPECT_EQ(buffer.data(), memory);
    EXPECT_EQ(buffer.size(), 8u);
  }
  EXPECT_EQ(pool.available(), blocks);
}

#ifdef WEFT_POISON
TEST_F(Pool, PoisonsFreedBlocks) {
  Buffer buffer = pool.acquire();
  std::byte* data = buffer.data();
  std::fill(data, data + 100, std::byte{1});
  buffer.release();
  EXPECT_TRUE(std::all_of(data, data + 100, [](std::byte b) { return b == std::byte{0xff}; }));
}
#endif

}  // namespace
}  // namespace weft
