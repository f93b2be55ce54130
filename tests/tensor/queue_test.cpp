#include "weft/tensor/queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "weft/base/error.h"
#include "weft/tensor/cpu_queue.h"

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

/// A queue whose work is done when the test says so.
class HandQueue final : public Queue {
 public:
  std::uint64_t done_until = 0;

  Device device() const noexcept override { return {}; }
  void upload(std::byte*, std::span<const std::byte>) override { ++given_; }
  void download(std::byte*, const std::byte*, std::size_t) override { ++given_; }
  void copy(std::byte*, const std::byte*, std::size_t) override { ++given_; }
  void fill(std::byte*, std::uint8_t, std::size_t) override { ++given_; }
  void add(float*, const float*, std::size_t) override { ++given_; }
  void squares(std::span<const std::span<const float>>, double*) override { ++given_; }
  Event record() override { return event(given_); }
  void wait(const Event&) override {}
  void* native() noexcept override { return nullptr; }

 private:
  bool reached(std::uint64_t point) const override {
    if (done_until == UINT64_MAX) throw DeviceError("the device broke");
    return done_until >= point;
  }
  std::uint64_t given_ = 0;
};

std::span<const std::byte> bytes_of(const std::vector<float>& values) {
  return std::as_bytes(std::span(values));
}
std::byte* bytes_at(std::vector<float>& values) { return reinterpret_cast<std::byte*>(values.data()); }

TEST(CpuQueue, HasDoneItsWorkWhenACallReturns) {
  const auto queue = make_queue(Device{});
  const std::vector<float> host{1, 2, 3};
  std::vector<float> device(3), other(3), back(3);
  queue->upload(bytes_at(device), bytes_of(host));
  EXPECT_EQ(device, host);
  queue->copy(bytes_at(other), bytes_at(device), 12);
  queue->add(other.data(), device.data(), 3);
  EXPECT_THAT(other, ElementsAre(2, 4, 6));
  queue->download(bytes_at(back), bytes_at(other), 12);
  EXPECT_EQ(back, other);
  queue->fill(bytes_at(back), 0, 8);
  EXPECT_THAT(back, ElementsAre(0, 0, 6));
  EXPECT_TRUE(queue->record().done());
  EXPECT_EQ(queue->native(), nullptr);
  EXPECT_EQ(queue->device(), Device{});
}

TEST(CpuQueue, TakesEmptyRanges) {
  const auto queue = make_queue(Device{});
  queue->upload(nullptr, {});
  queue->copy(nullptr, nullptr, 0);
  queue->download(nullptr, nullptr, 0);
  queue->fill(nullptr, 1, 0);
  queue->add(nullptr, nullptr, 0);
  queue->squares({}, nullptr);
}

TEST(CpuQueue, SumsTheSquaresOfEachRangeInOneFixedOrder) {
  std::vector<float> values(1003);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = 0.1f * static_cast<float>(i % 91) - 3.3f;
  // The order that every run has had: eight chains, then a tree.
  double chains[8] = {};
  for (std::size_t i = 0; i < values.size(); ++i) chains[i % 8] += static_cast<double>(values[i]) * values[i];
  const double expected = ((chains[0] + chains[1]) + (chains[2] + chains[3])) +
                          ((chains[4] + chains[5]) + (chains[6] + chains[7]));
  const std::array<std::span<const float>, 3> ranges{std::span<const float>(values), {}, {values.data(), 1}};
  std::array<double, 3> sums{-1, -1, -1};
  make_queue(Device{})->squares(ranges, sums.data());
  EXPECT_THAT(sums, ElementsAre(expected, 0, static_cast<double>(values[0]) * values[0]));
}

TEST(MakeQueue, RefusesADeviceThatTheBuildLacksByItsName) {
  try {
    static_cast<void>(make_queue(Device{DeviceKind::cuda, 1}));
    ADD_FAILURE() << "made";
  } catch (const DeviceError& error) {
    EXPECT_THAT(error.what(), HasSubstr("cuda:1"));
  }
}

TEST(Event, IsPastOnceItsQueueHasReachedIt) {
  EXPECT_TRUE(Event().done());
  HandQueue queue;
  queue.fill(nullptr, 0, 0);
  const Event first = queue.record();
  queue.fill(nullptr, 0, 0);
  const Event second = queue.record();
  EXPECT_FALSE(first.done());
  queue.done_until = 1;
  EXPECT_TRUE(first.done());
  EXPECT_FALSE(second.done());
  queue.done_until = 2;
  EXPECT_TRUE(second.done());
  CpuQueue().wait(second);
}

TEST(Event, TellsThatTheWorkBeforeItFailed) {
  HandQueue queue;
  const Event event = queue.record();
  queue.done_until = UINT64_MAX;
  EXPECT_THROW(static_cast<void>(event.done()), DeviceError);
}

}  // namespace
}  // namespace weft
