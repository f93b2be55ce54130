#include "weft/tensor/host_values.h"

#include <gtest/gtest.h>

#include <vector>

#include "weft/tests/support/device_memory.h"

namespace weft {
namespace {

using test::DeviceMemoryQueue;

TEST(HostValues, AreTheMemoryItselfOnTheHost) {
  std::vector<std::byte> memory(16);
  const auto queue = make_queue({});
  for (Queue* given : {queue.get(), static_cast<Queue*>(nullptr)}) {
    EXPECT_EQ(HostValues::read(given, memory).bytes().data(), memory.data());
    HostValues values = HostValues::overwrite(given, memory);
    EXPECT_EQ(values.bytes().data(), memory.data());
    values.as<float>()[1] = 2.5f;
    values.store();
    EXPECT_EQ(reinterpret_cast<float*>(memory.data())[1], 2.5f);
  }
}

TEST(HostValues, AreACopyOfADevicesMemory) {
  DeviceMemoryQueue queue(64);
  for (std::size_t i = 0; i < 64; ++i) queue.memory()[i] = static_cast<std::byte>(i);
  std::byte* const at = DeviceMemoryQueue::address(16);
  const HostValues read = HostValues::read(&queue, {at, 8});
  EXPECT_EQ(read.bytes()[0], std::byte{16});
  EXPECT_EQ(read.bytes()[7], std::byte{23});
  EXPECT_EQ(queue.waits, 1u) << "a copy is there once a later event is past";
}

TEST(HostValues, ReachADeviceWhenTheyAreStoredAndNotBefore) {
  DeviceMemoryQueue queue(64);
  std::byte* const at = DeviceMemoryQueue::address(8);
  HostValues values = HostValues::overwrite(&queue, {at, 4});
  for (std::byte& byte : values.bytes()) byte = std::byte{7};
  EXPECT_EQ(queue.memory()[8], std::byte{0});
  values.store();
  EXPECT_EQ(queue.memory()[7], std::byte{0});
  EXPECT_EQ(queue.memory()[8], std::byte{7});
  EXPECT_EQ(queue.memory()[11], std::byte{7});
  EXPECT_EQ(queue.memory()[12], std::byte{0});
}

}  // namespace
}  // namespace weft
