#include "weft/training/checkpoint/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

#include "weft/base/error.h"

namespace weft {
namespace {

/// What the holder wrote about itself, reduced to printable characters.
std::string holder(int descriptor) {
  std::array<char, 200> text{};
  const ssize_t size = ::pread(descriptor, text.data(), text.size(), 0);
  std::string words;
  for (ssize_t i = 0; i < size; ++i)
    if (std::isprint(static_cast<unsigned char>(text[static_cast<std::size_t>(i)])))
      words += text[static_cast<std::size_t>(i)];
  return words.empty() ? "" : " (" + words + ")";
}

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const auto path = folder / ".lock";
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw CheckpointError(fmt::format("{}: cannot be created: {}", folder.string(), error.message()));
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
  if (descriptor_ < 0)
    throw CheckpointError(fmt::format("{}: cannot be opened: {}", path.string(), std::strerror(errno)));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int why = errno;
    const std::string who = holder(descriptor_);
    ::close(descriptor_);
    if (why == EWOULDBLOCK)
      throw CheckpointError(fmt::format("{}: another run is using this folder{}", folder.string(), who));
    throw CheckpointError(fmt::format("{}: cannot be locked: {}", path.string(), std::strerror(why)));
  }
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  const std::string words = fmt::format("process {} on {}\n", ::getpid(), host.data());
  // only for the other run's message: the lock holds without it, for example on a full disk
  if (::ftruncate(descriptor_, 0) == 0) {
    [[maybe_unused]] const ssize_t written = ::pwrite(descriptor_, words.data(), words.size(), 0);
  }
}

FolderLock::~FolderLock() {
  // the file stays: removing it would let two runs lock two files of the same name
  if (descriptor_ >= 0) ::close(descriptor_);
}

FolderLock::FolderLock(FolderLock&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}

void FolderLock::keep_in_children() { ::fcntl(descriptor_, F_SETFD, 0); }

}  // namespace weft
