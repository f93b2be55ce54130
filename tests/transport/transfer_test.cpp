// Every transport x every size around the places where something changes: header, cache line, page, chunk.
#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "weft/base/error.h"
#include "weft/tests/transport/conversation.h"
#include "weft/transport/inproc/inproc_transport.h"

namespace weft {
namespace {

using Sizes = std::vector<std::size_t>;

/// Lets `ranks` ranks hold the same conversation over one transport; the first error of any rank, or "".
struct Fabric {
  std::string name;
  std::function<std::string(std::uint32_t ranks, const Sizes& sizes)> converse;
};

std::string over_threads(std::uint32_t ranks, const Sizes& sizes) {
  auto transports = make_inproc_transports(ranks);
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&sizes, &error = errors[rank], own = std::move(transports[rank])]() mutable {
      try {
        test::Conversation conversation(*own, sizes);
        conversation.run();
        own.reset();
      } catch (const std::exception& e) {
        error = e.what();
        own.reset();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    if (!errors[rank].empty()) return "rank " + std::to_string(rank) + ": " + errors[rank];
  return "";
}

class Transfer : public testing::TestWithParam<Fabric> {};

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

TEST_P(Transfer, OfOneMessageOfEverySize) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{63}, std::size_t{64}, 4 * kib,
                                 8 * kib - 64, 8 * kib, 8 * kib + 1, 32 * kib - 192, 32 * kib - 128,
                                 32 * kib - 64, 32 * kib - 1, 32 * kib, 32 * kib + 1, 64 * kib, mib, 5 * mib})
    EXPECT_EQ(GetParam().converse(2, {size}), "") << size << " bytes";
}

TEST_P(Transfer, OfManySmallMessagesBothWays) {
  Sizes sizes;
  for (std::size_t i = 0; i < 2000; ++i) sizes.push_back(i * 37 % 1500);
  EXPECT_EQ(GetParam().converse(2, sizes), "");
}

TEST_P(Transfer, OfLargeAndSmallMessagesInTurnAmongThreeRanks) {
  Sizes sizes;
  for (std::size_t i = 0; i < 60; ++i)
    sizes.push_back(i % 3 == 0 ? 300 * kib + i : i % 3 == 1 ? i : 33 * kib);
  EXPECT_EQ(GetParam().converse(3, sizes), "");
}

INSTANTIATE_TEST_SUITE_P(Over, Transfer, testing::Values(Fabric{"Threads", over_threads}),
                         [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace weft
