#include "weft/base/files/durable_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>  // mkdtemp
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/files/durable_file.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

/// A temporary folder and what was moved out of it: gone again unless kept.
class Unfinished {
 public:
  explicit Unfinished(fs::path folder) : folder_(std::move(folder)) {
    std::error_code error;
    fs::remove_all(folder_, error);  // left by a process of the same number that was killed
    fs::create_directories(folder_, error);
    if (error) throw CheckpointError(folder_.string() + ": cannot be created: " + error.message());
  }
  ~Unfinished() {
    std::error_code error;
    for (const fs::path& file : moved_) fs::remove_all(file, error);
    fs::remove_all(folder_, error);
  }
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  [[nodiscard]] const fs::path& folder() const noexcept { return folder_; }
  void move(const fs::path& name, const fs::path& to) {
    rename_durably(folder_ / name, to / name);
    moved_.push_back(to / name);
  }
  void keep_moved() noexcept { moved_.clear(); }

 private:
  fs::path folder_;
  std::vector<fs::path> moved_;
};

/// Without the slash or dot at the end, which would put a sibling inside.
fs::path plain(const fs::path& path) {
  fs::path target = path;
  while (target.has_parent_path() && (!target.has_filename() || target.filename() == "."))
    target = target.parent_path();
  return target;
}

void require_empty_folder(const fs::path& target) {
  std::error_code error;
  if (!fs::is_directory(target, error)) throw CheckpointError(target.string() + ": exists and is no folder");
  const fs::directory_iterator first(target, error);
  if (error) throw CheckpointError(target.string() + ": cannot be read: " + error.message());
  if (first != fs::directory_iterator())
    throw CheckpointError(fmt::format("{}: exists and is not an empty folder, it holds {}", target.string(),
                                      first->path().filename().string()));
}

/// Says 0 or the error that making something in the existing folder would meet.
int error_of_writing_into(const fs::path& folder) {
  if (::access(folder.c_str(), W_OK | X_OK) != 0) return errno;
  // access() says yes to root where nothing can be made, as in /proc; a file without a name is a trial that
  // nobody sees
  if (Descriptor(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600))) return 0;
  if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) return errno;
  std::string name = (folder / ".weft-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) return errno;
  ::rmdir(name.c_str());
  return 0;
}

}  // namespace

void write_folder(const fs::path& path, std::string_view last_file,
                  const std::function<void(const fs::path&)>& fill) {
  const fs::path target = plain(path);
  std::error_code error;
  if (!fs::exists(fs::symlink_status(target, error))) {
    const Unfinished unfinished(temporary_sibling(target));
    fill(unfinished.folder());
    sync_folder(unfinished.folder());
    rename_durably(unfinished.folder(), target);
    return;
  }
  require_empty_folder(target);
  Unfinished unfinished(target / temporary_sibling("weft"));
  fill(unfinished.folder());
  sync_folder(unfinished.folder());
  std::vector<fs::path> names;
  for (const auto& entry : fs::directory_iterator(unfinished.folder()))
    if (entry.path().filename() != last_file) names.push_back(entry.path().filename());
  for (const fs::path& name : names) unfinished.move(name, target);
  unfinished.move(last_file, target);
  unfinished.keep_moved();
}

void check_writable_folder(const fs::path& path) {
  fs::path existing = plain(path);
  std::error_code error;
  // a link to nowhere exists for this purpose: no folder can be made in its place
  while (!existing.empty() && !fs::exists(fs::symlink_status(existing, error))) {
    if (error && error != std::errc::no_such_file_or_directory && error != std::errc::not_a_directory)
      throw CheckpointError(path.string() + ": " + error.message());
    existing = existing.parent_path();
  }
  if (existing.empty()) existing = fs::current_path(error);
  if (existing.empty()) throw CheckpointError(path.string() + ": the current folder no longer exists");
  if (!fs::is_directory(existing, error))
    throw CheckpointError(existing == plain(path)
                              ? path.string() + ": is not a folder"
                              : path.string() + ": " + existing.string() + " is not a folder");
  const int problem = error_of_writing_into(existing);
  if (problem == 0) return;
  const bool there = existing == plain(path);
  throw CheckpointError(fmt::format("{}: {}: {}", path.string(),
                                    there ? "cannot be written to" : "cannot be made",
                                    std::strerror(problem)));
}

}  // namespace weft
