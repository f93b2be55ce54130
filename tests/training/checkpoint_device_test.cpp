// Checkpoints of a model whose memory the host cannot touch.
#include <gtest/gtest.h>

#include "checkpoint_fixture.h"
#include "weft/tests/support/device_memory.h"

namespace weft {
namespace {

using test::DeviceMemoryQueue;

/// Moves everything of one rank to a device, and back.
class OnDevice {
 public:
  OnDevice(RankState& rank, DeviceMemoryQueue& queue) : rank_(rank), queue_(queue) {
    for (Parameter* p : rank.parameters) {
      p->value = moved(p->value, p->value_bytes().size());
      if (p->master) p->master = reinterpret_cast<float*>(moved(bytes(p->master), p->master_bytes().size()));
      p->queue = &queue;
    }
    for (OptimizerState& state : rank.states) {
      state.value = reinterpret_cast<float*>(moved(bytes(state.value), state.value_bytes().size()));
      state.queue = &queue;
    }
  }
  void back() {
    std::size_t next = 0;
    const auto place = [&](std::size_t size) {
      const auto [host, device] = places_[next++];
      queue_.download(host, device, size);
      return host;
    };
    for (Parameter* p : rank_.parameters) {
      p->value = place(p->value_bytes().size());
      if (p->master) p->master = reinterpret_cast<float*>(place(p->master_bytes().size()));
      p->queue = nullptr;
    }
    for (OptimizerState& state : rank_.states) {
      state.value = reinterpret_cast<float*>(place(state.value_bytes().size()));
      state.queue = nullptr;
    }
  }

 private:
  static std::byte* bytes(float* values) { return reinterpret_cast<std::byte*>(values); }
  std::byte* moved(std::byte* host, std::size_t size) {
    std::byte* const device = DeviceMemoryQueue::address(used_);
    used_ += size;
    queue_.upload(device, {host, size});
    places_.emplace_back(host, device);
    return device;
  }
  RankState& rank_;
  DeviceMemoryQueue& queue_;
  std::size_t used_ = 0;
  std::vector<std::pair<std::byte*, std::byte*>> places_;
};

using DeviceCheckpoint = CheckpointTest;

TEST_F(DeviceCheckpoint, IsWrittenFromAndReadIntoADevice) {
  DeviceMemoryQueue queue(16'384);
  FakeModel saved(1, DType::bfloat16);
  saved.fill(5);
  const std::string hash = saved.weights_hash();
  const OnDevice on_device(saved.ranks[0], queue);
  EXPECT_EQ(saved.weights_hash(), hash);
  const auto checkpoint = save(saved, checkpoints, 3);

  FakeModel on_host(1, DType::bfloat16);
  restore(on_host, checkpoint);
  EXPECT_TRUE(on_host.holds(5));

  DeviceMemoryQueue other(16'384);
  FakeModel restored(1, DType::bfloat16);
  OnDevice there(restored.ranks[0], other);
  restore(restored, checkpoint);
  there.back();
  EXPECT_TRUE(restored.holds(5));
}

}  // namespace
}  // namespace weft
