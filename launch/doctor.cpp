#include "weft/launch/doctor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "weft/base/cores.h"
#include "weft/base/error.h"
#include "weft/launch/machine.h"
#include "weft/launch/version.h"
#include "weft/model/ops/cpu/cpu_level.h"
#include "weft/transport/ucx/survey.h"

namespace weft {
namespace {

/// What one rank's shared-memory segments take (transport/ucx/settings.cpp says more).
constexpr std::uint64_t bytes_per_rank = 17'500'000;

std::string gibibytes(std::uint64_t bytes) {
  return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1ULL << 30));
}

std::string cpu_lines() {
  std::string text = fmt::format("cpu              {}\n", processor_name());
  text += fmt::format("cores            {} usable", usable_cores());
  if (const auto quota = core_quota())
    text += fmt::format(", the control group allows {:.2g} cores' time", *quota);
  text += fmt::format("\nkernels          {}", cpu::name(cpu::best_cpu_level()));
  try {
    if (cpu::cpu_level() != cpu::best_cpu_level()) {
      text += fmt::format("; {} in use, as WEFT_CPU_LEVEL says", cpu::name(cpu::cpu_level()));
    }
  } catch (const ConfigError& e) {
    text += fmt::format("; {}", e.what());
  }
  return text + "\n";
}

std::string memory_lines() {
  const Space memory = main_memory();
  std::string text =
      fmt::format("memory           {}, {} available\n", gibibytes(memory.bytes), gibibytes(memory.free));
  const auto shared = shared_memory();
  if (!shared)
    return text + "shared memory    no /dev/shm: ranks of this host talk over the loopback device\n";
  const std::uint64_t ranks = shared->free / bytes_per_rank;
  text += fmt::format("shared memory    /dev/shm {}, {} free: enough for {} ranks\n",
                      gibibytes(shared->bytes), gibibytes(shared->free), ranks);
  if (ranks < 2)
    text +=
        "                 too small for fast messages between ranks; in a container, start it with "
        "--shm-size=1g\n";
  return text;
}

std::string ucx_lines(const UcxSurvey& ucx) {
  std::string text = fmt::format("ucx              {}{}\n", ucx.version,
                                 ucx.problem.empty() ? "" : ", does not start: " + ucx.problem);
  for (const auto& [transport, devices] : ucx.transports) {
    text += fmt::format("  {:<14} {}\n", transport, fmt::join(devices, ", "));
  }
  return text + fmt::format("  {:<14} {}\n", "moves memory of", fmt::join(ucx.memory_types, ", "));
}

std::string cuda_lines(const UcxSurvey& ucx) {
  const CudaDriver cuda = cuda_driver();
  const bool direct =
      std::find(ucx.memory_types.begin(), ucx.memory_types.end(), "cuda") != ucx.memory_types.end();
  std::string text = "cuda             ";
  if (cuda.version != 0) text += fmt::format("driver {}.{}, ", cuda.version / 1000, cuda.version % 1000 / 10);
  text += cuda.problem.empty() ? fmt::format("{}", fmt::join(cuda.devices, ", ")) : cuda.problem;
  text += "\ndevice memory    ";
  if (!cuda.problem.empty()) return text + "none here; this build computes on the CPU\n";
  return text +
         (direct
              ? "UCX can send and receive it directly; this build computes on the CPU\n"
              : "this UCX moves host memory only, so it would go through pinned staging buffers; this build "
                "computes on the CPU\n");
}

std::string limit_lines() {
  std::string text = "limits";
  std::string indent(11, ' ');
  for (const Limit& limit : process_limits()) {
    text += indent + (limit.value ? fmt::format("{}", *limit.value) : std::string("any number of")) + " " +
            limit.name + "\n";
    indent = std::string(17, ' ');
  }
  return text;
}

}  // namespace

std::string examine_machine() {
  const UcxSurvey ucx = survey_ucx();
  return version_line() + "\n" + cpu_lines() + memory_lines() + ucx_lines(ucx) + cuda_lines(ucx) +
         limit_lines();
}

}  // namespace weft
