#include "weft/base/files/durable_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "weft/base/error.h"

namespace weft {
namespace {

constexpr std::size_t chunk_bytes = std::size_t{4} << 20;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, int error) {
  throw CheckpointError(path.string() + ": " + what + ": " + std::strerror(error));
}

/// A descriptor that is open for reading; closed at the end of the scope.
class Reading {
 public:
  explicit Reading(const std::filesystem::path& path)
      // O_NONBLOCK: opening a named pipe must not wait for a writer
      : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (descriptor_ < 0) fail(path, "cannot be opened", errno);
    struct stat status {};
    if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
      ::close(descriptor_);
      throw CheckpointError(path.string() + ": is not a regular file");
    }
    size_ = static_cast<std::size_t>(status.st_size);
  }
  ~Reading() { ::close(descriptor_); }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;

  /// Up to `into.size()` bytes; fewer only at the end of the file.
  std::size_t read(const std::filesystem::path& path, std::span<std::byte> into) const {
    std::size_t done = 0;
    while (done < into.size()) {
      const ssize_t got = ::read(descriptor_, into.data() + done, into.size() - done);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) fail(path, "cannot be read", errno);
      if (got == 0) break;
      done += static_cast<std::size_t>(got);
    }
    return done;
  }
  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  /// Memory to read into: the whole file, with room to notice its end, or a chunk of it.
  [[nodiscard]] std::vector<std::byte> buffer() const {
    return std::vector<std::byte>(std::min(chunk_bytes, size_ + 1));
  }

 private:
  int descriptor_;
  std::size_t size_ = 0;
};

}  // namespace

DurableFile::DurableFile(std::filesystem::path path)
    : path_(std::move(path)),
      descriptor_(::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
  if (descriptor_ < 0) fail(path_, "cannot be created", errno);
}

DurableFile::~DurableFile() {
  close();
  if (!finished_) ::unlink(path_.c_str());
}

void DurableFile::close() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

void DurableFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(bytes.size(), chunk_bytes));
    const ssize_t done = ::write(descriptor_, piece.data(), piece.size());
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail(path_, "cannot be written", errno);
    const auto written = static_cast<std::size_t>(done);
    hash_.update(bytes.first(written));
    bytes_ += written;
    bytes = bytes.subspan(written);
  }
}

FileRecord DurableFile::finish() {
  if (::fsync(descriptor_) != 0) fail(path_, "cannot be flushed", errno);
  if (::close(std::exchange(descriptor_, -1)) != 0) fail(path_, "cannot be closed", errno);
  finished_ = true;
  return {path_.filename().string(), bytes_, hash_.hex()};
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail(folder, "cannot be opened", errno);
  const int result = ::fsync(descriptor);
  const int error = errno;
  ::close(descriptor);
  if (result != 0) fail(folder, "cannot be flushed", error);
}

void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(from, "cannot be renamed to " + to.string(), errno);
  sync_folder(to.parent_path());
}

std::filesystem::path temporary_sibling(const std::filesystem::path& path) {
  static std::atomic<std::uint64_t> names{0};
  return path.parent_path() / fmt::format(".{}.tmp-{}-{}", path.filename().string(), ::getpid(), ++names);
}

void replace_file(const std::filesystem::path& path, std::string_view text) {
  const auto temporary = temporary_sibling(path);
  ::unlink(temporary.c_str());  // left by a killed process that had this one's number
  DurableFile file(temporary);
  file.write(text);
  file.finish();
  try {
    rename_durably(temporary, path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

std::string read_small_file(const std::filesystem::path& path, std::size_t limit) {
  const Reading file(path);
  std::string text;
  auto buffer = file.buffer();
  while (true) {
    const std::size_t got = file.read(path, buffer);
    text.append(reinterpret_cast<const char*>(buffer.data()), got);
    if (text.size() > limit)
      throw CheckpointError(path.string() + ": is longer than " + std::to_string(limit) + " bytes");
    if (got < buffer.size()) return text;
  }
}

FileRecord hash_file(const std::filesystem::path& path) {
  const Reading file(path);
  // what is still in the page cache would not show what the medium holds
  ::posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  FileRecord record{path.filename().string(), 0, ""};
  Sha256 hash;
  auto buffer = file.buffer();
  while (true) {
    const std::size_t got = file.read(path, buffer);
    hash.update(std::span(buffer).first(got));
    record.bytes += got;
    if (got < buffer.size()) break;
  }
  record.sha256 = hash.hex();
  return record;
}

}  // namespace weft
