#include "weft/base/files/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"

namespace weft {
namespace {

/// What the holder wrote about itself.
std::string holder(int descriptor) {
  std::array<char, 200> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  std::string_view words(text.data(), size < 0 ? 0 : static_cast<std::size_t>(size));
  words = words.substr(0, words.find('\n'));
  return words.empty() ? "" : " (" + printable(words) + ")";
}

/// The whole file, for one writer. Locks of open file descriptions, since one of them can be asked for
/// without being taken; as others they end with the last process that has the file open.
struct ::flock whole_file() {
  struct ::flock lock {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  return lock;
}

CheckpointError in_use(const std::filesystem::path& folder, int descriptor) {
  return CheckpointError(
      fmt::format("{}: another run is using this folder{}", folder.string(), holder(descriptor)));
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const auto path = folder / ".lock";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw CheckpointError(fmt::format("{}: cannot be created: {}", folder.string(), error.message()));
  descriptor_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!descriptor_)
    throw CheckpointError(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  struct ::flock lock = whole_file();
  if (::fcntl(descriptor_.number(), F_OFD_SETLK, &lock) != 0) {
    if (errno == EAGAIN || errno == EACCES) throw in_use(folder, descriptor_.number());
    throw CheckpointError(fmt::format("{}: cannot be locked: {}", path.string(), std::strerror(errno)));
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string words = fmt::format("process {} on {}\n", ::getpid(), host.data());
  // only for the other run's message: the lock holds without it, for example on a full disk
  if (::ftruncate(descriptor_.number(), 0) == 0) {
    [[maybe_unused]] const ssize_t written = ::pwrite(descriptor_.number(), words.data(), words.size(), 0);
  }
}

void check_folder_is_free(const std::filesystem::path& folder) {
  const Descriptor descriptor(
      ::open((folder / ".lock").c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!descriptor) return;  // nobody has ever locked it, or the lock's own attempt will say what is wrong
  struct ::flock lock = whole_file();
  if (::fcntl(descriptor.number(), F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
    throw in_use(folder, descriptor.number());
}

}  // namespace weft
