#pragma once
// How much of this machine's processors is for this process.
#include <filesystem>
#include <optional>

namespace weft {

/// Threads that this process can keep busy at once: the cores that the calling thread may run on (taskset,
/// cpusets), or the time that the control group allows, rounded up, where that is less; at least 1. `root`:
/// as for core_quota.
[[nodiscard]] unsigned usable_cores(const std::filesystem::path& root = "/");

/// Cores' worth of time that this process's control group and those around it allow; none without a limit. Of
/// both versions of control groups; what is no quota is no limit. `root` holds proc/self/cgroup and
/// sys/fs/cgroup.
[[nodiscard]] std::optional<double> core_quota(const std::filesystem::path& root = "/");

}  // namespace weft
