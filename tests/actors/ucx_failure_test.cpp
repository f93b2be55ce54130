// A rank dies while its neighbour is inside of an op that polls: real processes, real UCX over TCP.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "hand_stepped.h"
#include "weft/actors/rank.h"
#include "weft/base/error.h"
#include "weft/tests/support/loopback.h"
#include "weft/tests/transport/process_group.h"

namespace weft {
namespace {

using toy::ToyBatch;
using toy::ToyOptions;

/// Says when progress() has thrown.
class WatchedTransport final : public Transport {
 public:
  explicit WatchedTransport(Transport& inner) : inner_(inner) {}
  std::uint32_t rank() const noexcept override { return inner_.rank(); }
  std::uint32_t world_size() const noexcept override { return inner_.world_size(); }
  Capabilities capabilities() const override { return inner_.capabilities(); }
  Attachment attach(MessageSink& sink) override { return inner_.attach(sink); }
  void send(std::uint32_t to, const MessageHeader& header, ConstPayload payload, SendToken token) override {
    inner_.send(to, header, payload, token);
  }
  bool progress() override {
    try {
      return inner_.progress();
    } catch (...) {
      has_thrown = true;
      throw;
    }
  }
  int descriptor() const noexcept override { return inner_.descriptor(); }
  bool arm() override { return inner_.arm(); }
  void wake() noexcept override { inner_.wake(); }
  void close(Nanoseconds deadline) override { inner_.close(deadline); }

  bool has_thrown = false;

 protected:
  bool let_go() noexcept override { return true; }  // the inner one has the sink

 private:
  Transport& inner_;
};

/// A toy stage that does something first in each forward.
class PreparedStage final : public Stage {
 public:
  PreparedStage(std::unique_ptr<Stage> stage, std::function<void(MicrobatchContext&)> before)
      : stage_(std::move(stage)), before_(std::move(before)) {}
  StagePlan plan(const ShapeList& input) override { return stage_->plan(input); }
  void allocate(Arena& state, Queue& queue) override { stage_->allocate(state, queue); }
  std::span<Parameter> parameters() override { return stage_->parameters(); }
  Task<StageOutput> forward(MicrobatchContext& context) override {
    before_(context);
    return stage_->forward(context);
  }
  Task<StageOutput> backward_input(MicrobatchContext& context, TensorList gradient) override {
    return stage_->backward_input(context, std::move(gradient));
  }
  Task<void> backward_weight(MicrobatchContext& context) override { return stage_->backward_weight(context); }

 private:
  std::unique_ptr<Stage> stage_;
  std::function<void(MicrobatchContext&)> before_;
};

TEST(UcxFailure, ARankKilledWhileItsNeighbourComputesIsTheOneThatIsBlamed) {
  if (const std::string problem = test::no_loopback(); !problem.empty()) GTEST_SKIP() << problem;
  constexpr std::uint32_t ranks = 3;
  constexpr std::uint32_t m = 4;
  constexpr std::uint32_t victim = 1;
  int computes[2];      // rank 0 tells the victim that it is inside of an op
  int knows[ranks][2];  // by rank: has seen the failure
  ASSERT_EQ(pipe(computes) | pipe(knows[0]) | pipe(knows[2]), 0);
  const PipelinePlan plan = toy::toy_plan("1f1b", ranks, m);
  const auto endings = test::run_processes(ranks, [&](std::uint32_t number, const ByteExchange& exchange) {
    setenv("UCX_TLS", "tcp,self", 1);
    const auto ucx = make_ucx_transport(number, ranks, exchange);
    WatchedTransport transport(*ucx);
    const auto before = [&](MicrobatchContext& context) {
      if (number == 0 && context.microbatch == 1) {
        const char inside = 1;
        if (write(computes[1], &inside, 1) != 1) throw Error("no pipe");
        // As kernels do, from where nothing may be thrown.
        const auto poll = [&context]() noexcept { context.poll(); };
        while (!transport.has_thrown) poll();
      }
      char inside = 0;
      if (number == victim && context.microbatch == 0 && read(computes[0], &inside, 1) == 1) raise(SIGKILL);
    };
    const StageFactory toys = toy::toy_stages(ToyOptions{});
    const StageFactory stages = [&](std::uint16_t stage, std::uint16_t count) {
      return std::make_unique<PreparedStage>(toys(stage, count), before);
    };
    Rank rank(number, plan, stages, toy::toy_optimizer(), transport, {});
    ToyBatch batch(1, m);
    try {
      rank.train(1, batch);
      throw Error("the step came to an end");
    } catch (const PeerFailure& failure) {
      if (failure.rank() != victim) throw Error("blames rank " + std::to_string(failure.rank()));
    }
    // Nobody leaves before both know, since leaving is a failure, too.
    char known = 1;
    if (write(knows[number][1], &known, 1) != 1 || read(knows[2 - number][0], &known, 1) != 1)
      throw Error("no pipe");
  });
  for (const int end : {computes[0], computes[1], knows[0][0], knows[0][1], knows[2][0], knows[2][1]})
    close(end);
  EXPECT_EQ(endings[0].error, "");
  EXPECT_EQ(endings[1].signal, SIGKILL);
  EXPECT_EQ(endings[2].error, "");
}

}  // namespace
}  // namespace weft
