#include "weft/actors/event_loop.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

/// Fails when it is told to.
class BrokenTransport final : public Transport {
 public:
  std::uint32_t rank() const noexcept override { return 0; }
  std::uint32_t world_size() const noexcept override { return 1; }
  Capabilities capabilities() const override { return {}; }
  void send(std::uint32_t, const MessageHeader&, ConstPayload, SendToken) override {}
  bool progress() override {
    ++calls;
    if (broken) throw PeerFailure(7, "rank 7 is gone, call " + std::to_string(calls));
    return false;
  }
  int descriptor() const noexcept override { return -1; }
  bool arm() override { return false; }
  void wake() noexcept override {}
  void close(Nanoseconds) override {}

  bool broken = false;
  int calls = 0;

 protected:
  bool let_go() noexcept override { return true; }
};

Task<void> op(EventLoop& loop, BrokenTransport& transport, int polls) {
  transport.broken = true;
  // As kernels do, from where nothing may be thrown.
  const auto poll = [&loop]() noexcept { loop.poll(); };
  for (int i = 0; i < polls; ++i) poll();
  co_return;
}

TEST(EventLoop, WhatAPollMeetsIsThrownByTheTurnThatRanTheOp) {
  BrokenTransport transport;
  EventLoop loop(transport, 0);
  try {
    loop.run(op(loop, transport, 3));
    FAIL() << "nothing was thrown";
  } catch (const PeerFailure& failure) {
    EXPECT_EQ(failure.rank(), 7u);
    EXPECT_STREQ(failure.what(), "rank 7 is gone, call 1") << "the first counts";
  }
  EXPECT_EQ(transport.calls, 1);
}

Task<void> op_that_throws(EventLoop& loop, BrokenTransport& transport) {
  transport.broken = true;
  loop.poll();
  throw Error("a consequence");
  co_return;
}

TEST(EventLoop, WhatAPollMeetsComesBeforeWhatTheOpThrowsForIt) {
  BrokenTransport transport;
  EventLoop loop(transport, 0);
  EXPECT_THROW(loop.run(op_that_throws(loop, transport)), PeerFailure);
}

TEST(EventLoop, AFailureThatIsToldBetweenTurnsIsThrownByTheNext) {
  BrokenTransport transport;
  EventLoop loop(transport, 0);
  loop.fail(std::make_exception_ptr(Error("first")));
  loop.fail(std::make_exception_ptr(Error("second")));
  try {
    loop.turn();
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_FALSE(loop.turn());
}

}  // namespace
}  // namespace weft
