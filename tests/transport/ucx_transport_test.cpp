#include "weft/transport/ucx/ucx_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "weft/base/error.h"
#include "weft/tests/support/allocation_count.h"
#include "weft/tests/support/loopback.h"
#include "weft/tests/transport/conversation.h"
#include "weft/tests/transport/process_group.h"

namespace weft {
namespace {

using test::Ending;
using test::first_error;
using test::require;
using test::run_processes;
using testing::HasSubstr;

constexpr Nanoseconds second = 1'000'000'000;

/// Counts; takes every payload into one buffer.
class CountingSink final : public MessageSink {
 public:
  Payload accept(std::uint32_t, const MessageHeader& header) override {
    if (refuse) throw TransportError("not in the plan");
    ++accepted;
    if (buffer.size() < header.payload_bytes) buffer.resize(header.payload_bytes);
    return {buffer.data(), {}};
  }
  void delivered(std::uint32_t, const MessageHeader&, Payload) override { ++received; }
  void sent(SendToken) override { ++sent_count; }
  void peer_failed(std::uint32_t peer, const std::string&) override { failed.push_back(peer); }

  std::vector<std::byte> buffer;
  std::uint64_t accepted = 0;
  std::uint64_t received = 0;
  std::uint64_t sent_count = 0;
  std::vector<std::uint32_t> failed;
  bool refuse = false;
};

/// The transports over which failures are looked for.
class UcxOver : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string problem = test::no_loopback();
    if (GetParam() == std::string("tcp,self") && !problem.empty()) GTEST_SKIP() << problem;
  }
  static void choose() {
    if (GetParam() != std::string("default")) setenv("UCX_TLS", GetParam(), 1);
    setenv("UCX_KEEPALIVE_INTERVAL", "200ms", 1);
  }
};

INSTANTIATE_TEST_SUITE_P(Transports, UcxOver, testing::Values("default", "tcp,self"),
                         [](const auto& instance) {
                           return std::string(instance.param) == "default" ? "SharedMemory" : "Tcp";
                         });

TEST_P(UcxOver, AKilledRankIsFoundByAllOthersOnceEach) {
  const auto endings = run_processes(3, [](std::uint32_t rank, const ByteExchange& exchange) {
    choose();
    CountingSink sink;
    const auto transport = make_ucx_transport(rank, 3, exchange);
    const Attachment attached = transport->attach(sink);
    if (rank == 1) raise(SIGKILL);
    test::drive(*transport, "the news of a death", [&] { return !sink.failed.empty(); });
    require(sink.failed == std::vector<std::uint32_t>{1}, "another rank was reported");
    for (int i = 0; i < 100; ++i) transport->progress();
    require(sink.failed.size() == 1, "reported twice");
    const std::byte payload{};
    bool refused = false;
    try {
      transport->send(1, test::numbered(0, 1), {&payload, {}}, 0);
    } catch (const PeerFailure& failure) {
      refused = failure.rank() == 1;
    }
    require(refused, "a message to a dead rank was taken");
    transport->close(now_ns() + 30 * second);  // the two that live still part in peace
    require(sink.failed.size() == 1, "the other rank was reported");
  });
  EXPECT_EQ(endings[0].error, "");
  EXPECT_EQ(endings[1].signal, SIGKILL);
  EXPECT_EQ(endings[2].error, "");
}

TEST_P(UcxOver, PayloadsForAKilledRankAreGivenBack) {
  const auto endings = run_processes(2, [](std::uint32_t rank, const ByteExchange& exchange) {
    choose();
    CountingSink sink;
    std::vector<std::byte> payload(20'000'000);
    const auto transport = make_ucx_transport(rank, 2, exchange);
    const Attachment attached = transport->attach(sink);
    if (rank == 1) {
      exchange({});
      raise(SIGKILL);
    }
    for (SendToken token = 0; token < 10; ++token)
      transport->send(1, test::numbered(0, payload.size()), {payload.data(), {}}, token);
    exchange({});
    test::drive(*transport, "payloads", [&] { return sink.sent_count == 10 && !sink.failed.empty(); });
  });
  EXPECT_EQ(endings[0].error, "");
  EXPECT_EQ(endings[1].signal, SIGKILL);
}

TEST_P(UcxOver, ARankThatLeavesWithoutGoodbyeHasFailed) {
  EXPECT_EQ(first_error(run_processes(2,
                                      [](std::uint32_t rank, const ByteExchange& exchange) {
                                        choose();
                                        CountingSink sink;
                                        auto transport = make_ucx_transport(rank, 2, exchange);
                                        const Attachment attached = transport->attach(sink);
                                        if (rank == 1) {
                                          transport.reset();
                                          return;
                                        }
                                        test::drive(*transport, "the news",
                                                    [&] { return !sink.failed.empty(); });
                                      })),
            "");
}

TEST_P(UcxOver, SendsLeaveWhileTheReceiverIsBusyWithOtherThings) {
  EXPECT_EQ(first_error(run_processes(
                2,
                [](std::uint32_t rank, const ByteExchange& exchange) {
                  choose();
                  CountingSink sink;
                  const std::vector<std::byte> payload(50'000);
                  const auto transport = make_ucx_transport(rank, 2, exchange);
                  const Attachment attached = transport->attach(sink);
                  if (rank == 0) {
                    for (SendToken token = 0; token < 4; ++token)
                      transport->send(1, test::numbered(0, payload.size()), {payload.data(), {}}, token);
                    test::drive(*transport, "sends", [&] { return sink.sent_count == 4; });
                  }
                  exchange({});  // where rank 1 has been all the time
                  test::drive(*transport, "messages", [&] { return sink.received == (rank == 0 ? 0U : 4U); });
                  transport->close(now_ns() + 30 * second);
                })),
            "");
}

TEST_P(UcxOver, NothingIsAllocatedOnceWarm) {
  EXPECT_EQ(first_error(run_processes(
                2,
                [](std::uint32_t rank, const ByteExchange& exchange) {
                  choose();
                  CountingSink sink;
                  const std::vector<std::byte> payload(200'000);
                  const auto transport = make_ucx_transport(rank, 2, exchange);
                  const Attachment attached = transport->attach(sink);
                  std::uint64_t warm = 0;
                  for (std::uint64_t round = 1; round <= 20; ++round) {
                    if (round == 10) warm = test::allocations_of_this_thread();
                    for (const std::size_t size : {std::size_t{0}, std::size_t{10}, payload.size()})
                      transport->send(1 - rank, test::numbered(0, size), {payload.data(), {}}, 0);
                    while (sink.received < 3 * round || sink.sent_count < 3 * round) transport->progress();
                  }
                  require(test::allocations_of_this_thread() == warm, "allocated");
                  transport->close(now_ns() + 30 * second);
                })),
            "");
}

TEST_P(UcxOver, CloseWaitsForThoseWhoAreBehindAndLosesNothing) {
  EXPECT_EQ(first_error(run_processes(
                3,
                [](std::uint32_t rank, const ByteExchange& exchange) {
                  choose();
                  CountingSink sink;
                  const std::vector<std::byte> payload(1'000'000);
                  const auto transport = make_ucx_transport(rank, 3, exchange);
                  const Attachment attached = transport->attach(sink);
                  // Rank 2 receives nothing before the others are inside of close().
                  if (rank == 2) {
                    exchange({});
                  } else {
                    for (SendToken token = 0; token < 20; ++token)
                      transport->send(2, test::numbered(0, payload.size()), {payload.data(), {}}, token);
                    exchange({});
                  }
                  transport->close(now_ns() + 60 * second);
                  require(sink.failed.empty(), "a rank that left in order was reported");
                  require(sink.received == (rank == 2 ? 40U : 0U), "messages lost");
                  require(sink.sent_count == (rank == 2 ? 0U : 20U), "sends not reported");
                })),
            "");
}

TEST_P(UcxOver, CloseGivesUpAtItsDeadlineWhenAPeerStandsStill) {
  EXPECT_EQ(first_error(run_processes(
                2,
                [](std::uint32_t rank, const ByteExchange& exchange) {
                  choose();
                  CountingSink sink;
                  const std::vector<std::byte> payload(30'000'000);
                  auto transport = make_ucx_transport(rank, 2, exchange);
                  const Attachment attached = transport->attach(sink);
                  if (rank == 1) {
                    exchange({});  // and nothing else, until rank 0 is through
                    return;
                  }
                  transport->send(1, test::numbered(0, payload.size()), {payload.data(), {}}, 0);
                  transport->close(now_ns() + second / 10);
                  transport.reset();  // before the payload
                  exchange({});
                })),
            "");
}

// The address sanitizer watches what is read and written after the sink and its payloads have gone.
TEST_P(UcxOver, ASinkThatGoesTakesItsMemoryAlong) {
  for (const PayloadPath path : {PayloadPath::chunks, PayloadPath::whole})
    EXPECT_EQ(first_error(run_processes(
                  2,
                  [path](std::uint32_t rank, const ByteExchange& exchange) {
                    choose();
                    UcxOptions options;
                    options.payloads = path;
                    auto transport = make_ucx_transport(rank, 2, exchange, options);
                    if (rank == 0) {
                      {
                        CountingSink sink;
                        const std::vector<std::byte> payload(30'000'000);
                        const Attachment attached = transport->attach(sink);
                        for (SendToken token = 0; token < 20; ++token)
                          transport->send(1, test::numbered(0, payload.size()), {payload.data(), {}}, token);
                        exchange({});
                        for (int i = 0; i < 100; ++i) transport->progress();
                      }
                      CountingSink next;
                      bool refused = false;
                      try {
                        static_cast<void>(transport->attach(next));
                      } catch (const TransportError&) {
                        refused = true;
                      }
                      require(refused, "a next sink was taken");
                      transport.reset();
                      exchange({});
                    } else {
                      exchange({});
                      {
                        CountingSink sink;
                        const Attachment attached = transport->attach(sink);
                        test::drive(*transport, "something",
                                    [&] { return sink.accepted != 0 || !sink.failed.empty(); });
                        require(sink.received < 20, "everything has come");
                      }
                      exchange({});
                    }
                  })),
              "");
}

TEST_P(UcxOver, WakeFromAnotherThreadEndsTheWait) {
  EXPECT_EQ(first_error(run_processes(2,
                                      [](std::uint32_t rank, const ByteExchange& exchange) {
                                        choose();
                                        CountingSink sink;
                                        const auto transport = make_ucx_transport(rank, 2, exchange);
                                        const Attachment attached = transport->attach(sink);
                                        std::atomic<bool> told{false};
                                        std::thread other([&] {
                                          told = true;
                                          transport->wake();
                                        });
                                        // As an event loop does: look, arm, wait. A lost wake-up hangs here,
                                        // and the test with it.
                                        while (!told) {
                                          if (transport->progress() || !transport->arm()) continue;
                                          pollfd wait{transport->descriptor(), POLLIN, 0};
                                          if (!told) poll(&wait, 1, -1);
                                        }
                                        other.join();
                                        transport->close(now_ns() + 30 * second);
                                      })),
            "");
}

TEST_P(UcxOver, AMessageWakesASleepingRank) {
  EXPECT_EQ(
      first_error(run_processes(2,
                                [](std::uint32_t rank, const ByteExchange& exchange) {
                                  choose();
                                  CountingSink sink;
                                  const std::byte payload{};
                                  const auto transport = make_ucx_transport(rank, 2, exchange);
                                  const Attachment attached = transport->attach(sink);
                                  for (int turn = 0; turn < 20; ++turn) {
                                    if (rank == turn % 2U)
                                      transport->send(1 - rank, test::numbered(0, 1), {&payload, {}}, 0);
                                    const std::uint64_t due = (turn + 1 + (rank == 0 ? 0 : 1)) / 2;
                                    while (sink.received < due) {
                                      if (transport->progress() || !transport->arm()) continue;
                                      pollfd wait{transport->descriptor(), POLLIN, 0};
                                      poll(&wait, 1, -1);  // without a limit
                                    }
                                  }
                                  transport->close(now_ns() + 30 * second);
                                })),
      "");
}

TEST_P(UcxOver, WhatTheSinkThrowsLeavesProgress) {
  EXPECT_EQ(first_error(run_processes(2,
                                      [](std::uint32_t rank, const ByteExchange& exchange) {
                                        choose();
                                        CountingSink sink;
                                        sink.refuse = true;
                                        const std::byte payload{};
                                        const auto transport = make_ucx_transport(rank, 2, exchange);
                                        const Attachment attached = transport->attach(sink);
                                        transport->send(1 - rank, test::numbered(0, 1), {&payload, {}}, 0);
                                        std::string thrown;
                                        try {
                                          test::drive(*transport, "a refusal", [] { return false; });
                                        } catch (const TransportError& error) {
                                          thrown = error.what();
                                        }
                                        require(thrown == "not in the plan", "thrown: " + thrown);
                                        transport->close(now_ns() + second / 5);
                                      })),
            "");
}

TEST(UcxTransport, WithOneRankHasNothingToDo) {
  EXPECT_EQ(first_error(run_processes(1,
                                      [](std::uint32_t, const ByteExchange& exchange) {
                                        CountingSink sink;
                                        const auto transport = make_ucx_transport(0, 1, exchange);
                                        const Attachment attached = transport->attach(sink);
                                        require(!transport->progress(), "something happened");
                                        transport->close(now_ns() + 30 * second);
                                      })),
            "");
}

TEST(UcxTransport, SaysWhatItCanDo) {
  EXPECT_EQ(first_error(run_processes(2,
                                      [](std::uint32_t rank, const ByteExchange& exchange) {
                                        CountingSink sink;
                                        const auto transport = make_ucx_transport(rank, 2, exchange);
                                        const Attachment attached = transport->attach(sink);
                                        require(transport->capabilities().name == "ucx posix",
                                                transport->capabilities().name);
                                        transport->close(now_ns() + 30 * second);
                                      })),
            "");
}

TEST(UcxTransport, RefusesMemoryOfADeviceThatItCannotMove) {
  EXPECT_EQ(first_error(run_processes(
                2,
                [](std::uint32_t rank, const ByteExchange& exchange) {
                  CountingSink sink;
                  const auto transport = make_ucx_transport(rank, 2, exchange);
                  const Attachment attached = transport->attach(sink);
                  const std::byte payload{};
                  std::string refusal;
                  if (!transport->capabilities().cuda_direct) try {
                      transport->send(1 - rank, test::numbered(0, 1), {&payload, {DeviceKind::cuda, 3}}, 0);
                    } catch (const TransportError& error) {
                      refusal = error.what();
                    }
                  require(transport->capabilities().cuda_direct ||
                              refusal == "a payload lies on cuda:3, and this UCX moves CPU memory only",
                          refusal);
                  transport->close(now_ns() + 30 * second);
                })),
            "");
}

TEST(UcxTransport, NamesTheRankThatDoesNotAnswer) {
  const auto endings = run_processes(2, [](std::uint32_t rank, const ByteExchange& exchange) {
    int call = 0;
    const ByteExchange and_then_silence = [&](std::vector<std::byte> mine) {
      auto all = exchange(std::move(mine));
      // Rank 1 has told its address and does nothing more, until rank 0 has given up.
      if (rank == 1 && ++call == 2) static_cast<void>(exchange({}));
      return all;
    };
    UcxOptions options;
    options.connect_limit = second / 2;
    static_cast<void>(make_ucx_transport(rank, 2, and_then_silence, options));
  });
  EXPECT_THAT(endings[0].error, HasSubstr("rank 1 did not answer within 0.5 s"));
}

TEST(UcxTransport, WithAnUnknownTransportSaysWhichVariablesMatter) {
  const auto endings = run_processes(1, [](std::uint32_t, const ByteExchange& exchange) {
    setenv("UCX_TLS", "carrier_pigeon", 1);
    static_cast<void>(make_ucx_transport(0, 1, exchange));
  });
  EXPECT_THAT(endings[0].error, HasSubstr("UCX_TLS"));
}

/// Gives this process a /dev/shm of its own, so small that nothing fits. False where that is not allowed.
bool shrink_shared_memory() {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=64k") == 0;
}

TEST(UcxTransport, TakesTheNextTransportWhenSharedMemoryIsTooSmall) {
  if (const std::string problem = test::no_loopback(); !problem.empty()) GTEST_SKIP() << problem;
  const auto endings = run_processes(2, [](std::uint32_t rank, const ByteExchange& exchange) {
    if (!shrink_shared_memory()) throw Error("not allowed");
    const auto transport = make_ucx_transport(rank, 2, exchange);
    const std::string name = transport->capabilities().name;
    require(name == "ucx sysv" || name == "ucx tcp", name);
    test::Conversation(*transport, {10, 100'000, 3'000'000}).run();
  });
  if (first_error(endings).find("not allowed") != std::string::npos)
    GTEST_SKIP() << "no mount namespace for this user";
  EXPECT_EQ(first_error(endings), "");
}

}  // namespace
}  // namespace weft
