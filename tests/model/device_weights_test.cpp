// Weights in memory that the host cannot touch: whatever reads or writes them goes through their queue.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "weft/model/llama/initial_weights.h"
#include "weft/model/weights/load_parameter.h"
#include "weft/model/weights/weights_hash.h"
#include "weft/tests/support/device_memory.h"

namespace weft::test {
namespace {

/// One bfloat16 parameter with a master, on the host or, with a queue, on its device.
struct Weight {
  static constexpr std::uint32_t rows = 3;
  static constexpr std::uint32_t columns = 5;
  std::vector<std::byte> host = std::vector<std::byte>(256);
  Parameter parameter;

  explicit Weight(DeviceMemoryQueue* queue = nullptr) {
    std::byte* const at = queue == nullptr ? host.data() : DeviceMemoryQueue::address(0);
    parameter.name = "model.layers.0.mlp.up_proj.weight";
    parameter.dtype = DType::bfloat16;
    parameter.shape = Shape{rows, columns};
    parameter.value = at;
    parameter.master = reinterpret_cast<float*>(at + 128);
    parameter.queue = queue;
  }
};

class DeviceWeights : public testing::Test {
 protected:
  DeviceMemoryQueue queue_{256};
  Weight here_;
  Weight there_{&queue_};

  void expect_same_bytes() {
    EXPECT_EQ(queue_.memory(), here_.host);
    EXPECT_NE(here_.host, std::vector<std::byte>(256)) << "nothing was written";
  }
};

TEST_F(DeviceWeights, StartWithTheSameBitsAsOnTheHost) {
  for (Weight* weight : {&here_, &there_}) set_initial_weights(LlamaConfig{}, {&weight->parameter, 1});
  expect_same_bytes();
}

TEST_F(DeviceWeights, AreLoadedAndHashedAsOnTheHost) {
  std::vector<float> values(Weight::rows * Weight::columns);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.37f * static_cast<float>(i) - 2;
  StoredTensor stored;
  stored.name = here_.parameter.name;
  stored.type = "F32";
  stored.dtype = DType::float32;
  stored.shape = {Weight::rows, Weight::columns};
  stored.bytes = std::as_bytes(std::span(values));
  for (Weight* weight : {&here_, &there_}) load_parameter(weight->parameter, stored, "a file");
  expect_same_bytes();

  std::vector<std::vector<std::string>> lines;
  for (Weight* weight : {&here_, &there_}) {
    Parameter* const parameter = &weight->parameter;
    lines.push_back(weights_hash_lines({&parameter, 1}));
  }
  EXPECT_EQ(lines[0], lines[1]);
}

}  // namespace
}  // namespace weft::test
