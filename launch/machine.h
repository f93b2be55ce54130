#pragma once
// Facts about this machine that the operating system and the CUDA driver tell.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft {

[[nodiscard]] std::string processor_name();

struct Space {
  std::uint64_t bytes = 0;
  std::uint64_t free = 0;
};
/// Main memory; `free` is what could be had without swapping.
[[nodiscard]] Space main_memory();
/// The most that processes here can hold: main memory, or what the control group allows where that is less,
/// and swap.
[[nodiscard]] std::uint64_t usable_memory();
/// The smallest limit of the control group that `membership` (as /proc/self/cgroup has it) names below
/// `mount`, and of those around it; none without a limit.
[[nodiscard]] std::optional<std::uint64_t> group_memory_limit(const std::string& membership,
                                                              const std::string& mount);
/// /dev/shm; none when it does not exist.
[[nodiscard]] std::optional<Space> shared_memory();

struct Limit {
  std::string name;
  std::optional<std::uint64_t> value;  ///< none = unlimited
};
[[nodiscard]] std::vector<Limit> process_limits();

/// What the CUDA driver says, if there is one. Nothing of CUDA is linked.
struct CudaDriver {
  std::string problem;               ///< why there is none, or empty
  int version = 0;                   ///< as in 12040 for 12.4
  std::vector<std::string> devices;  ///< names
};
[[nodiscard]] CudaDriver cuda_driver();

}  // namespace weft
