#include "weft/model/ops/cpu/cpu_level.h"

#include <cpuid.h>
#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdlib>

#include "weft/base/error.h"

namespace weft::cpu {
namespace {

constexpr std::array<std::string_view, 4> names{"baseline", "avx2", "avx512", "amx"};

/// Tiles need the CPU, the operating system (XCR0) and, for this process, a permission (Linux 5.16).
bool has_amx() noexcept {
  constexpr unsigned amx_bf16 = 1u << 22;
  constexpr unsigned amx_tile = 1u << 24;
  constexpr unsigned os_saves_registers = 1u << 27;
  constexpr std::uint32_t tile_state = 3u << 17;
  constexpr long request_permission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long tile_data = 18;

  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (ecx & os_saves_registers) == 0) return false;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return false;
  if ((edx & amx_bf16) == 0 || (edx & amx_tile) == 0) return false;
  std::uint32_t low = 0, high = 0;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & tile_state) != tile_state) return false;
  return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
}

CpuLevel level_from_environment(CpuLevel best) {
  const char* wanted = std::getenv("WEFT_CPU_LEVEL");
  if (wanted == nullptr || *wanted == '\0') return best;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i] != wanted) continue;
    const auto level = static_cast<CpuLevel>(i);
    if (level <= best) return level;
    throw ConfigError(fmt::format("WEFT_CPU_LEVEL: this machine does not have '{}'; its best level is '{}'",
                                  wanted, name(best)));
  }
  throw ConfigError(
      fmt::format("WEFT_CPU_LEVEL: '{}' is no level; allowed: baseline, avx2, avx512, amx", wanted));
}

}  // namespace

CpuLevel best_cpu_level() noexcept {
  static const CpuLevel best = [] {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CpuLevel::baseline;
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    if (!avx512) return CpuLevel::avx2;
    return has_amx() ? CpuLevel::amx : CpuLevel::avx512;
  }();
  return best;
}

CpuLevel cpu_level() {
  static const CpuLevel level = level_from_environment(best_cpu_level());
  return level;
}

std::string_view name(CpuLevel level) noexcept { return names[static_cast<std::size_t>(level)]; }

}  // namespace weft::cpu
