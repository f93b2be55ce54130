#include "weft/transport/rendezvous/run_token.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "weft/base/error.h"

namespace weft {

RunToken make_run_token() {
  RunToken token;
  if (getrandom(token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    throw Error(std::string("the system gives no random bytes for the run's token: ") + std::strerror(errno));
  }
  return token;
}

Descriptor share_run_token(const RunToken& token) {
  Descriptor file(memfd_create("weft-token", MFD_CLOEXEC));
  if (!file) {
    throw Error(std::string("cannot make a file in memory for the run's token: ") + std::strerror(errno));
  }
  if (pwrite(file.number(), token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    throw Error(std::string("cannot write the run's token: ") + std::strerror(errno));
  }
  return file;
}

RunToken read_run_token(int descriptor) {
  RunToken token;
  if (pread(descriptor, token.data(), token.size(), 0) != static_cast<ssize_t>(token.size())) {
    throw ConfigError("WEFT_TOKEN_FD: descriptor " + std::to_string(descriptor) +
                      " does not hold this run's token; allowed: only what the launcher sets");
  }
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  return token;
}

}  // namespace weft
