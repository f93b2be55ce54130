#include "weft/base/files/appended_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"

namespace weft {

AppendedFile::AppendedFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644)) {
  struct stat status {};
  if (!descriptor_) fail("cannot be opened", errno);
  if (::fstat(descriptor_.number(), &status) == 0) size_ = static_cast<std::uint64_t>(status.st_size);
}

void AppendedFile::append(std::string_view record) {
  ssize_t written = 0;
  do {
    written = ::write(descriptor_.number(), record.data(), record.size());
  } while (written < 0 && errno == EINTR);
  const int problem = errno;
  if (written == static_cast<ssize_t>(record.size())) {
    size_ += record.size();
    return;
  }
  if (written > 0) truncate(size_);
  fail("cannot be written", written < 0 ? problem : ENOSPC);
}

void AppendedFile::truncate(std::uint64_t size) {
  if (::ftruncate(descriptor_.number(), static_cast<off_t>(size)) != 0) fail("cannot be cut", errno);
  size_ = size;
}

void AppendedFile::fail(std::string_view what, int problem) const {
  throw Error(fmt::format("{} {}: {}", path_.string(), what, std::strerror(problem)));
}

}  // namespace weft
