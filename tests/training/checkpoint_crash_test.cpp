// What is left after a process died, a disk was full or a folder was read-only: always a whole checkpoint.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/resource.h>

#include <atomic>
#include <set>

#include "weft/base/error.h"
#include "weft/tests/training/checkpoint_fixture.h"
#include "weft/training/checkpoint/checkpoint_search.h"

namespace weft {
namespace {

using testing::AnyOf;

class CheckpointCrash : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    model.fill(1);
    save(model, checkpoints, 1);
  }

  /// The newest checkpoint is whole and is that of step 1 or 2; the next start can save over the leftovers.
  /// Returns its step.
  std::uint64_t check_what_is_left() {
    const auto search = find_newest_valid(checkpoints);
    EXPECT_TRUE(search.newest);
    EXPECT_TRUE(search.skipped.empty()) << search.skipped.front();
    const std::uint64_t step = search.newest->manifest.position.step;
    EXPECT_EQ(search.newest->manifest.position, position_at(step));
    FakeModel restored(3, DType::bfloat16);
    restore(restored, search.newest->folder);
    EXPECT_TRUE(restored.holds(static_cast<unsigned>(step)));
    EXPECT_THAT(read_small_file(checkpoints / latest_name, 100), AnyOf("step-00000001\n", "step-00000002\n"));

    remove_unfinished(checkpoints);
    model.fill(3);
    save(model, checkpoints, 3, {}, "a2");
    EXPECT_EQ(find_newest_valid(checkpoints).newest->manifest.position.step, 3u);
    for (const auto& name : names()) EXPECT_FALSE(name.starts_with('.')) << name;
    return step;
  }

  /// Back to step 1 alone.
  void start_over() {
    std::filesystem::remove_all(checkpoints);
    model.fill(1);
    save(model, checkpoints, 1);
  }

  FakeModel model{2, DType::bfloat16};
};

TEST_F(CheckpointCrash, AKillAtAnyPointLeavesAWholeCheckpoint) {
  int point = 0;
  std::set<std::uint64_t> seen;
  for (bool killed = true; killed; ++point) {
    start_over();
    const int status = in_child([&] {
      std::atomic<int> left = point;
      const auto probe = [&](std::string_view) {
        if (left-- == 0) ::kill(::getpid(), SIGKILL);
      };
      model.fill(2);
      save(model, checkpoints, 2, probe);
      keep_last(checkpoints, 1, probe);
    });
    killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    EXPECT_TRUE(killed || status == 0) << status;
    seen.insert(check_what_is_left());
  }
  EXPECT_GE(point, 4 * 2 + 5);  // four points for each of two ranks, four of the commit, one of keep_last
  EXPECT_EQ(seen.size(), 2u);
}

TEST_F(CheckpointCrash, AKillInTheMiddleOfAWriteLeavesTheOlderOne) {
  for (const rlim_t bytes : {0, 1, 100, 1000, 2000, 3000}) {
    start_over();
    const int status = in_child([&] {
      ::signal(SIGXFSZ, SIG_DFL);  // ends the process at exactly that byte of a file
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      model.fill(2);
      save(model, checkpoints, 2);
    });
    EXPECT_TRUE(WIFSIGNALED(status)) << bytes;
    EXPECT_EQ(check_what_is_left(), 1u);
  }
}

TEST_F(CheckpointCrash, AFullDiskIsAnErrorAndLeavesTheOlderOne) {
  for (const rlim_t bytes : {0, 1, 100, 1000, 2000, 3000}) {
    start_over();
    const int status = in_child([&] {
      ::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit{bytes, bytes};
      ::setrlimit(RLIMIT_FSIZE, &limit);
      model.fill(2);
      try {
        save(model, checkpoints, 2);
      } catch (const CheckpointError& error) {
        const std::string what = error.what();
        ::_exit(what.find("File too large") != std::string::npos &&
                        what.find("0.safetensors") != std::string::npos
                    ? 5
                    : 6);
      }
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 5) << bytes << " " << status;
    EXPECT_EQ(check_what_is_left(), 1u);
  }
}

TEST_F(CheckpointCrash, AReadOnlyFolderIsAnError) {
  ASSERT_EQ(::chmod(checkpoints.c_str(), 0555), 0);
  const int status = in_child([&] {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(3);  // root may write anywhere
    try {
      save(model, checkpoints, 2);
    } catch (const CheckpointError& error) {
      ::_exit(std::string(error.what()).find("Permission denied") != std::string::npos ? 5 : 6);
    }
  });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 5) << status;
  ASSERT_EQ(::chmod(checkpoints.c_str(), 0755), 0);
  EXPECT_EQ(check_what_is_left(), 1u);
}

TEST_F(CheckpointCrash, AFailureOfAnyStepLeavesAWholeCheckpoint) {
  int point = 0;
  for (bool failed = true; failed; ++point) {
    start_over();
    std::atomic<int> left = point;
    model.fill(2);
    failed = false;
    try {
      save(model, checkpoints, 2, [&](std::string_view) {
        if (left-- == 0) throw CheckpointError("a fault");
      });
    } catch (const CheckpointError&) {
      failed = true;
    }
    check_what_is_left();
  }
  EXPECT_GE(point, 4 * 2 + 4);
}

}  // namespace
}  // namespace weft
