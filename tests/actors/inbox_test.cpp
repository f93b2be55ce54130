#include "weft/actors/inbox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "weft/base/error.h"
#include "weft/tests/support/allocation_count.h"

namespace weft {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t microbatches = 4;

/// Rank 1 with stage 1 of three: activations of two tensors from rank 0, gradients from rank 2.
class InboxTest : public testing::Test {
 protected:
  static std::vector<EdgePlan> edges() {
    EdgePlan activation;
    activation.target_stage = 1;
    activation.target_rank = 1;
    activation.credits = 2;
    activation.tensors = {{DType::float32, Shape{2, 3}}, {DType::int32, Shape{4}}};
    EdgePlan gradient;
    gradient.kind = MessageKind::gradient;
    gradient.source_stage = 2;
    gradient.source_rank = 2;
    gradient.target_stage = 1;
    gradient.target_rank = 1;
    gradient.credits = 1;
    gradient.tensors = {{DType::float32, Shape{2, 3}}};
    return {activation, gradient};
  }
  InboxTest() {
    inbox.tell(
        this,
        [](void* test, const EdgePlan& edge, std::uint8_t tensor) {
          static_cast<InboxTest*>(test)->credits.emplace_back(edge.kind, tensor);
        },
        [](void* test, const EdgePlan&, std::uint32_t microbatch) {
          static_cast<InboxTest*>(test)->arrivals.push_back(microbatch);
        });
    credits.reserve(1000);
    arrivals.reserve(1000);
    inbox.begin_step(1, Phase::train);
  }
  static MessageHeader header(std::uint32_t microbatch, std::uint8_t tensor, std::uint32_t step = 1) {
    MessageHeader header;
    header.dtype = tensor == 0 ? DType::float32 : DType::int32;
    header.step = step;
    header.target_stage = 1;
    header.microbatch = microbatch;
    header.tensor = tensor;
    header.shape = tensor == 0 ? Shape{2, 3} : Shape{4};
    header.payload_bytes = header.shape.elements() * 4;
    return header;
  }
  void arrive(const MessageHeader& of, int value = 0) {
    const Payload place = inbox.accept(0, of);
    std::memset(place.data, value, of.payload_bytes);
    inbox.delivered(of, place);
  }
  bool ready(std::uint32_t microbatch) const { return state.inputs_ready({microbatch, 1, OpKind::forward}); }
  std::string refusal(std::uint32_t from, const MessageHeader& of) {
    try {
      static_cast<void>(inbox.accept(from, of));
    } catch (const TransportError& error) {
      return error.what();
    }
    return "taken";
  }

  std::vector<std::pair<MessageKind, std::uint8_t>> credits;
  std::vector<std::uint32_t> arrivals;
  RankState state{1, 3, {1}, microbatches, microbatches};
  Arena arena{Inbox::arena_bytes(1, edges()), "test"};
  Inbox inbox{1, edges(), microbatches, arena, state};
};

TEST_F(InboxTest, TakesNoMoreMemoryThanItSays) { EXPECT_EQ(arena.used(), arena.size()); }

TEST_F(InboxTest, FilesTensorsWhateverTheirOrder) {
  arrive(header(3, 1));
  EXPECT_FALSE(ready(3));
  arrive(header(0, 0), 7);
  arrive(header(0, 1));
  EXPECT_TRUE(ready(0));
  EXPECT_FALSE(ready(3));
  arrive(header(3, 0));
  EXPECT_TRUE(ready(3));
  EXPECT_EQ(arrivals, (std::vector<std::uint32_t>{0, 3}));
  const TensorList list = inbox.take(MessageKind::activation, 1, 0);
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].as<unsigned char>()[23], 7);
  EXPECT_EQ(list[1].dtype(), DType::int32);
}

TEST_F(InboxTest, OwesACreditWhenABufferIsFreeAgain) {
  arrive(header(0, 0));
  arrive(header(0, 1));
  {
    const TensorList list = inbox.take(MessageKind::activation, 1, 0);
    EXPECT_TRUE(credits.empty());
  }
  EXPECT_THAT(credits, testing::UnorderedElementsAre(std::pair(MessageKind::activation, std::uint8_t{0}),
                                                     std::pair(MessageKind::activation, std::uint8_t{1})));
}

TEST_F(InboxTest, KeepsWhatComesEarlyForItsStep) {
  arrive(header(0, 0, 2));
  arrive(header(0, 1, 2));
  EXPECT_FALSE(ready(0));
  state.begin_step(Phase::evaluate);
  inbox.begin_step(2, Phase::evaluate);
  EXPECT_FALSE(ready(0)) << "of the training, not of the evaluation";
  state.begin_step(Phase::train);
  inbox.begin_step(2, Phase::train);
  EXPECT_TRUE(ready(0));
  static_cast<void>(inbox.take(MessageKind::activation, 1, 0));
}

TEST_F(InboxTest, DeliversTwoTensorsUnderWayInAnyOrder) {
  const Payload first = inbox.accept(0, header(0, 0));
  const Payload second = inbox.accept(0, header(1, 0));
  inbox.delivered(header(1, 0), second);
  inbox.delivered(header(0, 0), first);
  EXPECT_THROW(inbox.delivered(header(0, 0), first), TransportError);
}

TEST_F(InboxTest, RefusesWhatThePlanDoesNotAllow) {
  MessageHeader wrong = header(0, 0);
  EXPECT_THAT(refusal(2, wrong), HasSubstr("activation from rank 2 for stage 1, micro-batch 0: there is no "
                                           "such border"));
  wrong.target_stage = 7;
  EXPECT_THAT(refusal(0, wrong), HasSubstr("no such border"));
  wrong = header(0, 0);
  wrong.source_stage = 3;
  EXPECT_THAT(refusal(0, wrong), HasSubstr("no such border"));
  EXPECT_THAT(refusal(0, header(microbatches, 0)), HasSubstr("no such micro-batch"));
  EXPECT_THAT(refusal(0, header(0, 2)), HasSubstr("no such tensor"));
  wrong = header(0, 0);
  wrong.dtype = DType::int32;
  EXPECT_THAT(refusal(0, wrong), HasSubstr("wrong type"));
  wrong = header(0, 0);
  wrong.shape = Shape{3, 3};
  EXPECT_THAT(refusal(0, wrong), HasSubstr("exceeds the largest planned, [2, 3]"));
  arrive(header(0, 0));
  arrive(header(1, 0));
  EXPECT_THAT(refusal(0, header(2, 0)), HasSubstr("without a credit"));
}

TEST_F(InboxTest, RefusesATensorTwice) {
  arrive(header(0, 0));
  EXPECT_THROW(arrive(header(0, 0)), TransportError);
}

TEST_F(InboxTest, AllocatesNothing) {
  const auto step = [this](std::uint32_t number) {
    arrive(header(0, 0, number));
    arrive(header(0, 1, number));
    arrive(header(1, 1, number));
    arrive(header(1, 0, number));
    state.begin_step(Phase::train);
    inbox.begin_step(number, Phase::train);
    for (const std::uint32_t microbatch : {0u, 1u})
      static_cast<void>(inbox.take(MessageKind::activation, 1, microbatch));
  };
  const std::uint64_t before = test::allocations_of_this_thread();
  for (std::uint32_t number = 2; number < 20; ++number) step(number);
  EXPECT_EQ(test::allocations_of_this_thread(), before);
}

}  // namespace
}  // namespace weft
