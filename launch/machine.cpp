#include "weft/launch/machine.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <utility>

#include "weft/base/control_group.h"

namespace weft {
namespace {

/// The value after `key` and a colon in a file of such lines, or nothing.
std::string value_of(const char* file, std::string_view key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(key)) continue;
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? std::string() : line.substr(start);
  }
  return {};
}

}  // namespace

std::string processor_name() {
  const std::string name = value_of("/proc/cpuinfo", "model name");
  return name.empty() ? "unknown processor" : name;
}

Space main_memory() {
  struct sysinfo facts {};
  Space space;
  if (sysinfo(&facts) != 0) return space;
  space.bytes = std::uint64_t{facts.totalram} * facts.mem_unit;
  const std::string available = value_of("/proc/meminfo", "MemAvailable");
  space.free = available.empty() ? std::uint64_t{facts.freeram} * facts.mem_unit
                                 : std::strtoull(available.c_str(), nullptr, 10) * 1024;
  return space;
}

std::optional<std::uint64_t> group_memory_limit(const std::string& membership, const std::string& mount) {
  std::optional<std::uint64_t> smallest;
  for (const auto& group : control_group_folders(membership, mount, "memory")) {
    std::uint64_t bytes = 0;
    std::ifstream file(group.path / (group.unified ? "memory.max" : "memory.limit_in_bytes"));
    if (file >> bytes) smallest = std::min(smallest.value_or(bytes), bytes);  // it may say "max"
  }
  return smallest;
}

std::uint64_t usable_memory() {
  struct sysinfo facts {};
  if (sysinfo(&facts) != 0) return std::numeric_limits<std::uint64_t>::max();
  std::stringstream membership;
  membership << std::ifstream("/proc/self/cgroup").rdbuf();
  const std::uint64_t memory = std::uint64_t{facts.totalram} * facts.mem_unit;
  const std::uint64_t limit = group_memory_limit(membership.str(), "/sys/fs/cgroup").value_or(memory);
  return std::min(memory, limit) + std::uint64_t{facts.totalswap} * facts.mem_unit;
}

std::optional<Space> shared_memory() {
  struct statvfs facts {};
  if (statvfs("/dev/shm", &facts) != 0) return std::nullopt;
  return Space{std::uint64_t{facts.f_blocks} * facts.f_frsize,
               std::uint64_t{facts.f_bavail} * facts.f_frsize};
}

std::vector<Limit> process_limits() {
  std::vector<Limit> limits;
  for (const auto& [name, number] : {std::pair{"open files", RLIMIT_NOFILE},
                                     {"processes", RLIMIT_NPROC},
                                     {"bytes of locked memory", RLIMIT_MEMLOCK},
                                     {"bytes of memory", RLIMIT_AS},
                                     {"bytes of one file", RLIMIT_FSIZE},
                                     {"bytes of a core file", RLIMIT_CORE}}) {
    rlimit limit{};
    if (getrlimit(number, &limit) != 0) continue;
    limits.push_back({name, limit.rlim_cur == RLIM_INFINITY ? std::nullopt
                                                            : std::optional<std::uint64_t>(limit.rlim_cur)});
  }
  return limits;
}

CudaDriver cuda_driver() {
  CudaDriver driver;
  const std::unique_ptr<void, int (*)(void*)> library(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), dlclose);
  if (!library) {
    driver.problem = "no driver (libcuda.so.1 cannot be loaded)";
    return driver;
  }
  const auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(library.get(), "cuInit"));
  const auto version = reinterpret_cast<int (*)(int*)>(dlsym(library.get(), "cuDriverGetVersion"));
  const auto count = reinterpret_cast<int (*)(int*)>(dlsym(library.get(), "cuDeviceGetCount"));
  const auto name = reinterpret_cast<int (*)(char*, int, int)>(dlsym(library.get(), "cuDeviceGetName"));
  if (init == nullptr || version == nullptr || count == nullptr || name == nullptr) {
    driver.problem = "libcuda.so.1 lacks functions of the driver";
    return driver;
  }
  version(&driver.version);
  int devices = 0;
  if (const int error = init(0); error != 0 || count(&devices) != 0) {
    driver.problem = fmt::format("the driver does not start (error {})", error);
    return driver;
  }
  for (int device = 0; device < devices; ++device) {
    std::array<char, 128> text{};
    driver.devices.emplace_back(
        name(text.data(), static_cast<int>(text.size()) - 1, device) == 0 ? text.data() : "?");
  }
  if (devices == 0) driver.problem = "a driver, but no device";
  return driver;
}

}  // namespace weft
