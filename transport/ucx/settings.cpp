#include "weft/transport/ucx/settings.h"

#include <fmt/format.h>
#include <sys/ipc.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <string_view>

#include "weft/base/byte_order.h"
#include "weft/base/error.h"

namespace weft::ucx {
namespace {

// What one worker takes, measured with UCX 1.13: 16.5 MB with segments of 32 KiB and 256 of them, 4.2 MB with
// UCX's own defaults.
constexpr std::size_t large_segment = 32 * 1024;
constexpr std::uint64_t large_worker = 17'500'000;
constexpr std::size_t small_segment = 8256;
constexpr std::uint64_t small_worker = 4'600'000;

constexpr std::uint32_t facts_magic = 0x31465557;  // "WUF1"
constexpr unsigned has_sysv = 1, has_loopback = 2;
constexpr std::size_t longest_text = 16 * 1024;

std::string first_line(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string link_target(const char* path) {
  char target[256];
  const auto length = readlink(path, target, sizeof(target));
  return length > 0 ? std::string(target, static_cast<std::size_t>(length)) : std::string();
}

std::string shared_memory_folder() {
  const char* folder = std::getenv("UCX_POSIX_DIR");
  return folder != nullptr ? folder : "/dev/shm";
}

bool sysv_available() {
  const int id = shmget(IPC_PRIVATE, large_worker, IPC_CREAT | 0600);
  if (id < 0) return false;
  shmctl(id, IPC_RMID, nullptr);
  return true;
}

std::string segment_overrides() {
  std::vector<std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    for (const std::string_view prefix : {"UCX_MM_", "UCX_POSIX_", "UCX_SYSV_"})
      if (variable.substr(0, prefix.size()) == prefix) found.emplace_back(variable);
  }
  std::sort(found.begin(), found.end());
  std::string text;
  for (const std::string& variable : found) text += variable + "\n";
  return text;
}

void append_text(std::vector<std::byte>& bytes, const std::string& text) {
  const std::size_t length = std::min(text.size(), longest_text);
  const std::size_t at = bytes.size();
  bytes.resize(at + 4 + length);
  store_le(bytes.data() + at, static_cast<std::uint32_t>(length));
  std::transform(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + 4),
                 [](char c) { return static_cast<std::byte>(c); });
}

[[noreturn]] void refuse_facts() { throw TransportError("a rank's facts about its host cannot be read"); }

std::string take_text(std::span<const std::byte>& bytes) {
  if (bytes.size() < 4) refuse_facts();
  const std::size_t length = load_le<std::uint32_t>(bytes.data());
  if (length > longest_text || bytes.size() - 4 < length) refuse_facts();
  const auto text = bytes.subspan(4, length);
  bytes = bytes.subspan(4 + length);
  std::string result(length, ' ');
  std::transform(text.begin(), text.end(), result.begin(), [](std::byte b) { return static_cast<char>(b); });
  return result;
}

/// The smallest segment size that the overrides name, or 0.
std::size_t overridden_segment(const std::string& overrides) {
  std::size_t smallest = 0;
  for (std::size_t at = 0; (at = overrides.find("_SEG_SIZE=", at)) != std::string::npos;) {
    at += std::string_view("_SEG_SIZE=").size();
    std::size_t value = 0;
    const auto [end, error] =
        std::from_chars(overrides.data() + at, overrides.data() + overrides.size(), value);
    if (error != std::errc()) value = small_segment;
    if (*end == 'k' || *end == 'K') value *= 1024;
    if (*end == 'm' || *end == 'M') value *= 1024 * 1024;
    smallest = smallest == 0 ? value : std::min(smallest, value);
  }
  return smallest;
}

/// `transports` as in UCX_TLS: names, or after "^" the names of those that are left out.
bool has_shared_memory(std::string_view transports) {
  const bool all_but = !transports.empty() && transports.front() == '^';
  if (all_but) transports.remove_prefix(1);
  bool posix = false;
  bool sysv = false;
  while (!transports.empty()) {
    const auto end = std::min(transports.find(','), transports.size());
    const std::string_view name = transports.substr(0, end);
    transports.remove_prefix(std::min(end + 1, transports.size()));
    const bool both = name == "all" || name == "mm" || name == "sm" || name == "shm";
    posix = posix || both || name == "posix";
    sysv = sysv || both || name == "sysv";
  }
  return all_but ? !posix || !sysv : posix || sysv;
}

}  // namespace

HostFacts observe_host() {
  HostFacts facts;
  const std::string folder = shared_memory_folder();
  facts.host = first_line("/proc/sys/kernel/random/boot_id") + " " + link_target("/proc/self/ns/net") + " " +
               link_target("/proc/self/ns/ipc");
  struct stat status {};
  if (stat(folder.c_str(), &status) == 0) facts.host += fmt::format(" {:x}", status.st_dev);
  struct statvfs space {};
  if (statvfs(folder.c_str(), &space) == 0 && access(folder.c_str(), W_OK) == 0)
    facts.shared_memory = std::uint64_t{space.f_bavail} * space.f_frsize;
  facts.sysv = sysv_available();
  facts.loopback = access("/sys/class/net/lo", F_OK) == 0;
  facts.overrides = segment_overrides();
  return facts;
}

std::vector<std::byte> encode(const HostFacts& facts) {
  std::vector<std::byte> bytes(13);
  store_le(bytes.data(), facts_magic);
  store_le(bytes.data() + 4, facts.shared_memory);
  store_le(bytes.data() + 12,
           static_cast<std::uint8_t>((facts.sysv ? has_sysv : 0) | (facts.loopback ? has_loopback : 0)));
  append_text(bytes, facts.host);
  append_text(bytes, facts.overrides);
  return bytes;
}

HostFacts decode_host_facts(std::span<const std::byte> bytes) {
  if (bytes.size() < 13 || load_le<std::uint32_t>(bytes.data()) != facts_magic) refuse_facts();
  HostFacts facts;
  facts.shared_memory = load_le<std::uint64_t>(bytes.data() + 4);
  const auto flags = load_le<std::uint8_t>(bytes.data() + 12);
  facts.sysv = (flags & has_sysv) != 0;
  facts.loopback = (flags & has_loopback) != 0;
  bytes = bytes.subspan(13);
  facts.host = take_text(bytes);
  facts.overrides = take_text(bytes);
  if (!bytes.empty()) refuse_facts();
  return facts;
}

Settings agree(std::span<const HostFacts> facts, std::uint32_t rank) {
  const HostFacts& own = facts[rank];
  std::uint64_t ranks = 0;  // on this host
  std::uint64_t free_bytes = UINT64_MAX;
  bool sysv = true;
  bool loopback = true;
  for (std::size_t other = 0; other < facts.size(); ++other) {
    if (facts[other].host != own.host) continue;
    if (facts[other].overrides != own.overrides)
      throw TransportError(fmt::format(
          "the UCX_MM_*, UCX_POSIX_* and UCX_SYSV_* variables differ between rank {} and rank {}, "
          "which share a host: set them alike, or shared memory would be overwritten",
          rank, other));
    ++ranks;
    free_bytes = std::min(free_bytes, facts[other].shared_memory);
    sysv = sysv && facts[other].sysv;
    loopback = loopback && facts[other].loopback;
  }

  Settings settings;
  settings.values = {{"MM_ERROR_HANDLING", "y"}, {"KEEPALIVE_INTERVAL", "1s"}};
  if (ranks == facts.size() && loopback) settings.values.emplace_back("NET_DEVICES", "lo");

  bool large = free_bytes >= ranks * large_worker;
  const std::string shortage =
      fmt::format("{} bytes of shared memory are free in {}, and {} ranks need {}: ", free_bytes,
                  shared_memory_folder(), ranks, ranks * small_worker);
  // cma ends the process where ptrace is not allowed; one kind of shared memory is enough.
  std::string transports = "^cma,sysv";
  if (ranks == 1) {
    transports = "^cma,posix,sysv";  // nobody to share with
  } else if (free_bytes < ranks * small_worker) {
    large = sysv;
    transports = sysv ? "^cma,posix" : "^cma,posix,sysv";
    settings.warning = shortage + (std::getenv("UCX_TLS") != nullptr
                                       ? "and UCX_TLS, which is set, says what is taken instead"
                                   : sysv ? "System V shared memory is taken instead"
                                          : "messages go through the network's loopback, which is slower");
  }
  settings.values.emplace_back("TLS", transports);

  const std::size_t overridden = overridden_segment(own.overrides);
  settings.segment_bytes = overridden != 0 ? overridden : large ? large_segment : small_segment;
  if (overridden == 0 && large) {
    settings.values.emplace_back("MM_SEG_SIZE", std::to_string(large_segment));
    settings.values.emplace_back("MM_FIFO_SIZE", "256");
  }
  return settings;
}

std::vector<std::pair<std::string, std::string>> applicable(const Settings& settings) {
  std::vector<std::pair<std::string, std::string>> values;
  std::string transports;
  for (const auto& [key, value] : settings.values) {
    const char* variable = std::getenv(("UCX_" + key).c_str());
    if (key == "TLS") transports = variable != nullptr ? variable : value;
    if (variable == nullptr) values.emplace_back(key, value);
  }
  if (!has_shared_memory(transports))
    std::erase_if(values, [](const auto& setting) { return setting.first.substr(0, 3) == "MM_"; });
  return values;
}

std::size_t chunk_bytes(std::size_t segment_bytes) noexcept {
  // Room for the 64 bytes of weft's header and the few of UCX's; a multiple of a cache line.
  return std::clamp<std::size_t>(segment_bytes, 2048, 1024 * 1024) / 64 * 64 - 128;
}

}  // namespace weft::ucx
