#include "weft/base/files/readable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"

namespace weft {
namespace {

int open_for_reading(const std::filesystem::path& path) {
  // O_NONBLOCK: opening a named pipe must not wait for a writer
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/// A data set may have more files than a process may open before it asks for more.
void allow_more_files() {
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

ReadableFile::ReadableFile(std::filesystem::path path)
    : path_(std::move(path)), descriptor_(open_for_reading(path_)) {
  if (!descriptor_ && errno == EMFILE) {
    allow_more_files();
    descriptor_ = Descriptor(open_for_reading(path_));
  }
  struct stat status {};
  if (!descriptor_ || ::fstat(descriptor_.number(), &status) != 0)
    throw Error(fmt::format("{} cannot be opened: {}", path_.string(), std::strerror(errno)));
  if (!S_ISREG(status.st_mode)) throw Error(path_.string() + " is no regular file");
  size_ = static_cast<std::uint64_t>(status.st_size);
}

std::size_t ReadableFile::read_up_to(std::uint64_t offset, std::span<std::byte> into) const {
  std::size_t done = 0;
  while (done < into.size()) {
    const ssize_t got = ::pread(descriptor_.number(), into.data() + done, into.size() - done,
                                static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(fmt::format("{} cannot be read: {}", path_.string(), std::strerror(errno)));
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void ReadableFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  if (read_up_to(offset, into) == into.size()) return;
  struct stat now {};
  ::fstat(descriptor_.number(), &now);
  throw Error(fmt::format("{} had {} bytes when it was opened and has {} now: something has cut it",
                          path_.string(), size_, now.st_size));
}

}  // namespace weft
