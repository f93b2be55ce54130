#include "weft/base/cores.h"
#include "weft/tests/support/scratch_folder.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace weft {
namespace {

namespace fs = std::filesystem;

class Cores : public testing::Test {
 protected:
  void put(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }

  const test::ScratchFolder scratch_;
  const fs::path root_ = scratch_.path();
};

/// What the calling thread sees after it was bound to the first of its cores.
unsigned on_one_core(const fs::path& root) {
  unsigned cores = 0;
  std::thread([&] {
    cpu_set_t all;
    sched_getaffinity(0, sizeof(all), &all);
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    sched_setaffinity(0, sizeof(one), &one);
    cores = usable_cores(root);
  }).join();
  return cores;
}

TEST_F(Cores, AreThoseOfTheAffinity) {
  EXPECT_EQ(usable_cores(root_), std::thread::hardware_concurrency());
  EXPECT_EQ(on_one_core(root_), 1U);
}

TEST_F(Cores, AreNoMoreThanTheQuotaRoundedUp) {
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/b/cpu.max", "50000 100000\n");
  EXPECT_EQ(core_quota(root_), 0.5);
  EXPECT_EQ(usable_cores(root_), 1U);
  put("sys/fs/cgroup/a/b/cpu.max", "150000 100000\n");
  EXPECT_EQ(usable_cores(root_), std::min(2U, std::thread::hardware_concurrency()));
  put("sys/fs/cgroup/a/b/cpu.max", "900000000 100000\n");
  EXPECT_EQ(usable_cores(root_), std::thread::hardware_concurrency());
  EXPECT_EQ(on_one_core(root_), 1U) << "a quota adds no cores";
}

TEST_F(Cores, TakeTheSmallestQuotaOnTheWayToTheGroup) {
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/a/cpu.max", "300000 100000\n");
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  EXPECT_EQ(core_quota(root_), 3.0);
  put("sys/fs/cgroup/a/b/cpu.max", "200000 50000\n");
  EXPECT_EQ(core_quota(root_), 3.0);
}

TEST_F(Cores, KnowTheFirstVersionOfControlGroups) {
  put("proc/self/cgroup", "5:memory:/m\n2:cpu,cpuacct:/a\n0::/\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(core_quota(root_), std::nullopt);
  put("sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "250000\n");
  put("sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(core_quota(root_), 2.5);
}

TEST_F(Cores, TakeNoLimitFromWhatIsNone) {
  EXPECT_EQ(core_quota(root_ / "nowhere"), std::nullopt);
  for (const char* membership : {"", "\n", "0::", "no colons", "0::/../../..\n", "0:::\n"}) {
    put("proc/self/cgroup", membership);
    EXPECT_EQ(core_quota(root_), std::nullopt) << membership;
  }
  put("proc/self/cgroup", "0::/a\n");
  for (const char* text : {"", "\n", "max", "max 100000", "100000", "100000 0", "0 100000", "-5 100000",
                           "100000 -5", "nan nan", "inf 1", "1e400 1", "cores 4", "100000 period"}) {
    put("sys/fs/cgroup/a/cpu.max", text);
    EXPECT_EQ(core_quota(root_), std::nullopt) << text;
    EXPECT_EQ(usable_cores(root_), std::thread::hardware_concurrency()) << text;
  }
}

}  // namespace
}  // namespace weft
