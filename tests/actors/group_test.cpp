// Collectives of two replicas of a pipeline of two ranks, over a network that delays and reorders.
#include "weft/actors/group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>

#include "weft/actors/mailbox.h"
#include "weft/base/error.h"
#include "weft/transport/mesh.h"
#include "weft/transport/simulated/simulated_network.h"

namespace weft {
namespace {

using testing::ElementsAre;

constexpr Mesh mesh{2, 2};

std::vector<std::byte> bytes_of(const std::string& text) {
  const auto raw = std::as_bytes(std::span(text));
  return {raw.begin(), raw.end()};
}
std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// A rank without stages and its two groups.
struct Member {
  Member(std::uint32_t number, SimulatedNetwork& network)
      : rank(number),
        transport(network.transport(number)),
        loop(*transport),
        arena(4096, "test"),
        view(0, 1, std::vector<std::uint16_t>{0}, 1, 1),
        mailbox(number, {}, 1, arena, loop, *transport, view),
        pipeline(GroupNumber::pipeline, mesh.pipeline_of(number), number, mailbox.side()),
        replicas(GroupNumber::replicas, mesh.replicas_of(number), number, mailbox.side()) {}

  std::uint32_t rank;
  std::unique_ptr<Transport> transport;
  EventLoop loop;
  Arena arena;
  RankState view;
  Mailbox mailbox;
  Group pipeline;
  Group replicas;
};

class Groups : public testing::TestWithParam<std::uint64_t> {
 protected:
  Groups() : network_(4, GetParam()) {
    for (std::uint32_t rank = 0; rank < 4; ++rank)
      members_.push_back(std::make_unique<Member>(rank, network_));
  }

  /// Runs one coroutine a rank to its end.
  void run(Task<void> (*body)(Member*, std::vector<std::string>*)) {
    std::vector<Task<void>> tasks;
    heard_.assign(4, {});
    for (auto& member : members_) tasks.push_back(body(member.get(), &heard_[member->rank]));
    for (auto& member : members_) tasks[member->rank].start(member->loop.ready());
    for (bool done = false; !done;) {
      done = true;
      bool busy = false;
      for (auto& member : members_) {
        busy |= member->loop.turn();
        done &= tasks[member->rank].done();
      }
      if (!done && !busy && !network_.step()) throw std::runtime_error("a collective stands still");
    }
    for (auto& task : tasks) task.result();
  }

  SimulatedNetwork network_;
  std::vector<std::unique_ptr<Member>> members_;
  std::vector<std::vector<std::string>> heard_;  // by rank
};

Task<void> gather_in_both(Member* member, std::vector<std::string>* heard) {
  const auto mine = bytes_of(std::to_string(member->rank));
  for (Group* group : {&member->pipeline, &member->replicas}) {
    std::vector<std::vector<std::byte>> parts;
    co_await group->gather(1, mine, parts);
    for (const auto& part : parts) heard->push_back(text_of(part));
  }
}

TEST_P(Groups, GatherAtAMemberInTheOrderOfTheList) {
  run(gather_in_both);
  EXPECT_THAT(heard_[0], ElementsAre());
  EXPECT_THAT(heard_[1], ElementsAre("0", "1"));
  EXPECT_THAT(heard_[2], ElementsAre("0", "2"));
  EXPECT_THAT(heard_[3], ElementsAre("1", "3", "2", "3"));
}

Task<void> broadcast_in_both(Member* member, std::vector<std::string>* heard) {
  for (int round = 0; round < 3; ++round)
    for (Group* group : {&member->replicas, &member->pipeline}) {
      auto bytes = bytes_of(std::to_string(round) + " of " + std::to_string(member->rank));
      co_await group->broadcast(0, bytes);
      heard->push_back(text_of(bytes));
    }
}

TEST_P(Groups, BroadcastAgainAndAgain) {
  run(broadcast_in_both);
  EXPECT_THAT(heard_[3], ElementsAre("0 of 2", "0 of 1", "1 of 2", "1 of 1", "2 of 2", "2 of 1"));
  EXPECT_THAT(heard_[0], ElementsAre("0 of 0", "0 of 0", "1 of 0", "1 of 0", "2 of 0", "2 of 0"));
}

/// Ranks 0 and 1 as both groups; rank 1 begins with the other one.
Task<void> cross(Member* member, std::vector<std::string>* heard) {
  if (member->rank > 1) co_return;
  Group first(GroupNumber::pipeline, {0, 1}, member->rank, member->mailbox.side());
  Group second(GroupNumber::replicas, {0, 1}, member->rank, member->mailbox.side());
  std::vector<Group*> order{&first, &second};
  if (member->rank == 1) std::swap(order[0], order[1]);
  for (Group* group : order) {
    const auto mine = bytes_of(group == &first ? "first" : "second");
    std::vector<std::vector<std::byte>> parts;
    co_await group->gather(0, mine, parts);
    for (const auto& part : parts) heard->push_back(text_of(part));
  }
}

TEST_P(Groups, TakeNoMessagesOfEachOther) {
  run(cross);
  EXPECT_THAT(heard_[0], ElementsAre("first", "first", "second", "second"));
}

INSTANTIATE_TEST_SUITE_P(Seeds, Groups, testing::Range<std::uint64_t>(1, 6));

TEST(Group, HasThisRankAmongItsMembers) {
  SimulatedNetwork network(4, 1);
  Member member(2, network);
  EXPECT_EQ(member.replicas.place(), 0U);
  EXPECT_EQ(member.pipeline.place(), 1U);
  EXPECT_EQ(member.pipeline.size(), 2U);
  EXPECT_THROW(Group(GroupNumber::pipeline, {0, 1}, 2, member.mailbox.side()), Error);
}

}  // namespace
}  // namespace weft
