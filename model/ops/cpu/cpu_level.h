#pragma once
// Which instruction set the CPU kernels use.
#include <string_view>

namespace weft::cpu {

/// baseline: any x86-64 (SSE2, product and sum rounded apart). avx2: AVX2 with FMA. avx512: AVX-512 F, BW,
/// DQ, VL. amx: avx512 and bf16 products on AMX tiles. fp32 products have the same bits at avx2, avx512 and
/// amx; bf16 products at avx2 and avx512.
enum class CpuLevel { baseline, avx2, avx512, amx };

/// The level in use by this process: the best one that CPU and operating system allow, or the lower one named
/// by the environment variable WEFT_CPU_LEVEL (baseline, avx2, avx512, amx). Read once, at the first call.
/// Throws ConfigError when the variable holds another word or a level this machine does not have.
[[nodiscard]] CpuLevel cpu_level();

/// The best level of this machine, whatever WEFT_CPU_LEVEL says.
[[nodiscard]] CpuLevel best_cpu_level() noexcept;

/// "baseline", "avx2", "avx512" or "amx": for the log, `weft doctor` and the comparison at the rendezvous.
[[nodiscard]] std::string_view name(CpuLevel level) noexcept;

}  // namespace weft::cpu
