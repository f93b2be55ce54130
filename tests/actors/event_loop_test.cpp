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
  EXPECT_THROW(loop.turn(), Error) << "it is dead";
}

struct Forever {
  explicit Forever(EventLoop& event_loop) noexcept : loop(event_loop) {}
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) noexcept { loop.wait(waiting, INT64_MAX); }
  void await_resume() const noexcept {}
  EventLoop& loop;
};

Task<int> wait(EventLoop& loop, int* resumed) {
  co_await Forever(loop);
  co_return ++*resumed;
}

Task<int> seven() { co_return 7; }

std::string problem_of(EventLoop& loop) {
  try {
    loop.run(seven());
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(EventLoop, ThatWasInterruptedNeverResumesWhatIsGone) {
  BrokenTransport transport;
  EventLoop loop(transport, 0);
  EXPECT_EQ(problem_of(loop), "");
  loop.on_interrupt([] { throw PeerFailure(1, "rank 1 is gone"); });
  loop.interrupt();
  int resumed = 0;
  EXPECT_THROW(loop.run(wait(loop, &resumed)), PeerFailure);
  loop.wake();
  EXPECT_EQ(problem_of(loop), "this rank has failed before: rank 1 is gone");
  EXPECT_THROW(loop.turn(), Error);
  EXPECT_EQ(resumed, 0);
}

Task<int> failing() {
  throw Error("the first cause");
  co_return 0;
}

TEST(EventLoop, TellsTheFirstCauseForEver) {
  BrokenTransport transport;
  EventLoop loop(transport, 0);
  EXPECT_THROW(loop.run(failing()), Error);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(problem_of(loop), "this rank has failed before: the first cause");
}

}  // namespace
}  // namespace weft
