#pragma once
// Which UCX settings a rank uses: a pure function of what all ranks have seen of their hosts, so that the
// ranks of one host decide alike. UCX does not notice when two processes use shared-memory segments of
// different sizes: they overwrite each other's memory.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace weft::ucx {

/// What one rank sees of its host before UCX starts.
struct HostFacts {
  std::string host;                 ///< equal for ranks that share a kernel, a network and /dev/shm
  std::uint64_t shared_memory = 0;  ///< free bytes where POSIX shared memory lies
  bool sysv = false;                ///< System V shared memory can be had
  bool loopback = false;            ///< UCX finds the loopback device: it looks into /sys/class/net
  std::string overrides;            ///< the UCX_MM_*, UCX_POSIX_* and UCX_SYSV_* variables, "name=value\n"
};

/// Looks at this host. Leaves nothing behind.
[[nodiscard]] HostFacts observe_host();

[[nodiscard]] std::vector<std::byte> encode(const HostFacts& facts);
/// Throws TransportError when the bytes are not those of HostFacts.
[[nodiscard]] HostFacts decode_host_facts(std::span<const std::byte> bytes);

struct Settings {
  /// Names without the prefix UCX_, and values.
  std::vector<std::pair<std::string, std::string>> values;
  std::size_t segment_bytes = 0;  ///< of shared memory
  std::string warning;            ///< for the user, or empty
};

/// The settings of `rank` from the facts of all ranks, by rank; equal for ranks of one host. Throws
/// TransportError when ranks of one host have different overrides.
[[nodiscard]] Settings agree(std::span<const HostFacts> facts, std::uint32_t rank);

/// The settings that apply in this process: those whose UCX_* variable is not set; those of shared memory
/// only where the transports include it (UCX warns about others).
[[nodiscard]] std::vector<std::pair<std::string, std::string>> applicable(const Settings& settings);

/// The payload bytes of a chunk that fits one segment together with its header and UCX's own.
[[nodiscard]] std::size_t chunk_bytes(std::size_t segment_bytes) noexcept;

}  // namespace weft::ucx
