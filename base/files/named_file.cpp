#include "weft/base/files/named_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "weft/base/error.h"
#include "weft/base/files/durable_folder.h"

namespace weft {
namespace {

[[noreturn]] void refuse(const std::filesystem::path& path, const std::string& what, int error) {
  throw CheckpointError(path.string() + ": " + what + ": " + std::strerror(error));
}

// The end of a chain of symbolic links.
std::filesystem::path behind_links(const std::filesystem::path& path) {
  std::error_code error;
  const auto target = std::filesystem::weakly_canonical(path, error);
  if (error) throw CheckpointError(path.string() + ": " + error.message());
  return target;
}

bool is_special(const std::filesystem::path& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  return std::filesystem::exists(status) && !std::filesystem::is_regular_file(status);
}

}  // namespace

NamedFile::NamedFile(const std::filesystem::path& path) : path_(behind_links(path)) {
  if (is_special(path_)) {
    descriptor_ = Descriptor(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
    if (!descriptor_) refuse(path_, "cannot be opened", errno);
    return;
  }
  temporary_ = temporary_sibling(path_);
  ::unlink(temporary_.c_str());  // left by a process of the same number that was killed
  file_.emplace(temporary_);
}

void NamedFile::write(std::string_view text) {
  if (file_) return file_->write(text);
  if (const int error = write_fully(descriptor_.number(), text)) refuse(path_, "cannot be written", error);
}

void NamedFile::finish() {
  if (!file_) {
    if (const int error = descriptor_.close()) refuse(path_, "cannot be written", error);
    return;
  }
  file_->finish();
  try {
    rename_durably(temporary_, path_);
  } catch (...) {
    ::unlink(temporary_.c_str());
    throw;
  }
}

void check_named_file(const std::filesystem::path& path) {
  if (path.empty() || !path.has_filename()) throw CheckpointError("'" + path.string() + "' names no file");
  const auto target = behind_links(path);
  std::error_code error;
  if (std::filesystem::is_directory(target, error)) refuse(path, "cannot be written", EISDIR);
  if (!is_special(target)) {
    if (!std::filesystem::is_directory(target.parent_path(), error))
      refuse(path, "cannot be written", ENOENT);
    return check_writable_folder(target.parent_path());
  }
  if (::access(target.c_str(), W_OK) != 0) refuse(path, "cannot be written", errno);
}

}  // namespace weft
