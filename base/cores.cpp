#include "weft/base/cores.h"

#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <sstream>
#include <thread>

#include "weft/base/control_group.h"

namespace weft {
namespace {

constexpr int kMostCores = 1 << 16;

/// The quota in one folder: `cpu.max` holds "QUOTA PERIOD" or "max PERIOD", in the first version of control
/// groups two files hold one number each, and -1 is no limit.
std::optional<double> quota_in(const ControlGroupFolder& group) {
  std::ifstream first(group.path / (group.unified ? "cpu.max" : "cpu.cfs_quota_us"));
  std::ifstream second(group.path / "cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  if (!(first >> quota) || !((group.unified ? first : second) >> period)) return std::nullopt;
  if (!(quota > 0 && period > 0)) return std::nullopt;
  return quota / period;
}

/// Of the calling thread's affinity.
unsigned allowed_cores() {
  // the kernel refuses a set smaller than its own
  for (int cores = CPU_SETSIZE; cores <= kMostCores; cores *= 2) {
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(cores));
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(cores));
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int reason = errno;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return static_cast<unsigned>(std::max(count, 1));
    if (reason != EINVAL) break;
  }
  return std::max(1U, std::thread::hardware_concurrency());
}

}  // namespace

std::optional<double> core_quota(const std::filesystem::path& root) {
  std::stringstream membership;
  membership << std::ifstream(root / "proc/self/cgroup").rdbuf();
  std::optional<double> smallest;
  for (const auto& group : control_group_folders(membership.str(), root / "sys/fs/cgroup", "cpu")) {
    if (const auto cores = quota_in(group)) smallest = std::min(smallest.value_or(*cores), *cores);
  }
  return smallest;
}

unsigned usable_cores(const std::filesystem::path& root) {
  const unsigned allowed = allowed_cores();
  const double quota = core_quota(root).value_or(allowed);
  return std::max(1U, static_cast<unsigned>(std::min<double>(allowed, std::ceil(quota))));
}

}  // namespace weft
