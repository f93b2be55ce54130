// Every transport x every size around the places where something changes: header, cache line, page, chunk.
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <ostream>
#include <thread>

#include "weft/base/error.h"
#include "weft/tests/support/loopback.h"
#include "weft/tests/transport/conversation.h"
#include "weft/tests/transport/process_group.h"
#include "weft/transport/inproc/inproc_transport.h"
#include "weft/transport/simulated/simulated_network.h"

namespace weft {
namespace {

using Sizes = std::vector<std::size_t>;

/// Lets `ranks` ranks hold the same conversation over one transport; the first error of any rank, or "".
struct Fabric {
  std::string name;
  std::function<std::string(std::uint32_t ranks, const Sizes& sizes)> converse;

  friend void PrintTo(const Fabric& fabric, std::ostream* out) { *out << fabric.name; }
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

std::string over_simulation(std::uint32_t ranks, const Sizes& sizes) {
  SimulatedNetwork network(ranks, sizes.size());
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::unique_ptr<test::Conversation>> conversations;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    transports.push_back(network.transport(rank));
    conversations.push_back(std::make_unique<test::Conversation>(*transports[rank], sizes));
    conversations[rank]->start();
  }
  do {
    for (const auto& transport : transports) transport->progress();
  } while (network.step());
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    if (!conversations[rank]->done()) return "rank " + std::to_string(rank) + ": messages lost";
  return "";
}

/// UCX between processes. `lane`: what UCX must have chosen, so that no test runs over something else.
std::string over_ucx(std::uint32_t ranks, const Sizes& sizes, const char* transports, const std::string& lane,
                     PayloadPath payloads) {
  return test::first_error(test::run_processes(ranks, [&](std::uint32_t rank, const ByteExchange& exchange) {
    if (transports != nullptr) setenv("UCX_TLS", transports, 1);
    UcxOptions options;
    options.payloads = payloads;
    const auto transport = make_ucx_transport(rank, ranks, exchange, options);
    test::require(transport->capabilities().name == "ucx " + lane, transport->capabilities().name);
    test::Conversation(*transport, sizes).run();
  }));
}

Fabric ucx(std::string name, const char* transports, std::string lane, PayloadPath payloads) {
  return {std::move(name), [=](std::uint32_t ranks, const Sizes& sizes) {
            return over_ucx(ranks, sizes, transports, lane, payloads);
          }};
}

class Transfer : public testing::TestWithParam<Fabric> {
 protected:
  void SetUp() override {
    const std::string problem = test::no_loopback();
    if (GetParam().name.starts_with("UcxTcp") && !problem.empty()) GTEST_SKIP() << problem;
  }
};

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

TEST_P(Transfer, OfEverySizeOneAfterTheOther) {
  const Sizes sizes{0,
                    1,
                    63,
                    64,
                    4 * kib,
                    8 * kib - 192,
                    8 * kib - 64,
                    8 * kib,
                    8128,
                    8129,
                    32 * kib - 193,
                    32 * kib - 192,
                    32 * kib - 128,
                    32 * kib - 127,
                    32 * kib - 64,
                    32 * kib - 1,
                    32 * kib,
                    32 * kib + 1,
                    64 * kib,
                    mib,
                    5 * mib,
                    0,
                    1};
  EXPECT_EQ(GetParam().converse(2, sizes), "");
}

TEST_P(Transfer, OfOneMessageAlone) {
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, 32 * kib + 1})
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

INSTANTIATE_TEST_SUITE_P(
    Over, Transfer,
    testing::Values(Fabric{"Threads", over_threads}, Fabric{"Simulation", over_simulation},
                    ucx("UcxSharedMemory", nullptr, "posix", PayloadPath::automatic),
                    ucx("UcxTcp", "tcp,self", "tcp", PayloadPath::automatic),
                    ucx("UcxSystemV", "sysv,self", "sysv", PayloadPath::automatic),
                    ucx("UcxSharedMemoryRendezvous", nullptr, "posix", PayloadPath::whole),
                    ucx("UcxTcpRendezvous", "tcp,self", "tcp", PayloadPath::whole)),
    [](const auto& instance) { return instance.param.name; });

}  // namespace
}  // namespace weft
