#include "weft/launch/hosts/handed_config.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr const char* handed_config_variable = "WEFT_CONFIG_FD";
constexpr int seals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

HandedConfig::HandedConfig(const std::string& text)
    : descriptor_(memfd_create("weft-config", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  int error = descriptor_ ? write_fully(descriptor_.number(), text) : errno;
  if (error == 0 && fcntl(descriptor_.number(), F_ADD_SEALS, seals) != 0) error = errno;
  if (error != 0)
    throw Error(std::string("cannot hand the configuration to the ranks: ") + std::strerror(error));
}

std::pair<std::string, std::string> HandedConfig::variable() const {
  return {handed_config_variable, std::to_string(descriptor_.number())};
}

std::optional<std::string> handed_config() {
  const char* variable = std::getenv(handed_config_variable);
  if (variable == nullptr) return std::nullopt;
  const std::string_view number = variable;
  const auto refusal = [&] {
    return ConfigError(std::string(handed_config_variable) + ": '" + variable +
                       "' is no descriptor with a configuration; allowed: only what the launcher sets");
  };
  int descriptor = -1;
  const auto parsed = std::from_chars(number.data(), number.data() + number.size(), descriptor);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size()) throw refusal();
  if (fcntl(descriptor, F_GET_SEALS) != seals) throw refusal();
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  const off_t size = lseek(descriptor, 0, SEEK_END);
  std::string text(size < 0 ? 0 : static_cast<std::size_t>(size), '\0');
  for (std::size_t done = 0; done < text.size();) {  // pread: all ranks share one place in the file
    const ssize_t count = pread(descriptor, text.data() + done, text.size() - done, static_cast<off_t>(done));
    if (count <= 0 && errno != EINTR) throw refusal();
    done += count < 0 ? 0 : static_cast<std::size_t>(count);
  }
  return text;
}

}  // namespace weft
