#include "weft/actors/task.h"

#include <gtest/gtest.h>

#include "weft/base/error.h"

namespace weft {
namespace {

struct Counted {
  explicit Counted(int& alive) : alive_(&alive) { ++*alive_; }
  Counted(Counted&& other) noexcept : alive_(other.alive_) { ++*alive_; }
  Counted& operator=(Counted&&) = delete;
  ~Counted() { --*alive_; }
  int* alive_;
};

template <class T>
T finish(Task<T> task) {
  ReadyQueue queue;
  task.start(queue);
  while (!queue.empty()) queue.run_one();
  EXPECT_TRUE(task.done());
  return task.result();
}

Task<int> number(int n) { co_return n; }
Task<int> sum_of_many(int count) {
  int sum = 0;
  for (int i = 0; i < count; ++i) sum += co_await number(i % 3);
  co_return sum;
}
Task<int> nested(int depth) {
  if (depth == 0) co_return 0;
  const int below = co_await nested(depth - 1);
  co_return below + 1;
}
Task<int> failing() {
  co_await number(1);
  throw Error("from below");
}
Task<int> passing_on() { co_return co_await failing(); }
Task<int> holding(Counted held) {
  const int one = co_await number(1);
  co_return one + *held.alive_ * 0;
}
Task<int> outer(int* alive) {
  Counted counted(*alive);
  co_return co_await holding(std::move(counted));
}

TEST(Task, AMillionAwaitsDoNotGrowTheStack) { EXPECT_EQ(finish(sum_of_many(1'000'000)), 999'999); }
TEST(Task, DeepChainsReturn) { EXPECT_EQ(finish(nested(20'000)), 20'000); }
TEST(Task, ExceptionsTravelToTheOneWhoAwaits) { EXPECT_THROW(finish(passing_on()), Error); }
TEST(Task, ArgumentsAreDestroyedExactlyOnce) {
  int alive = 0;
  EXPECT_EQ(finish(outer(&alive)), 1);
  EXPECT_EQ(alive, 0);
}
TEST(Task, ATaskThatIsNeverStartedFreesItsFrame) {
  int alive = 0;
  {
    Counted counted(alive);
    auto task = holding(std::move(counted));
  }
  EXPECT_EQ(alive, 0);
}
TEST(ReadyQueue, KeepsTheOrderWhileItGrows) {
  ReadyQueue queue;
  std::vector<Task<int>> tasks;
  for (int i = 0; i < 1000; ++i) tasks.push_back(number(i));
  for (auto& task : tasks) task.start(queue);
  for (int i = 0; i < 1000; ++i) {
    queue.run_one();
    EXPECT_TRUE(tasks[static_cast<std::size_t>(i)].done());
  }
  EXPECT_TRUE(queue.empty());
}

}  // namespace
}  // namespace weft
