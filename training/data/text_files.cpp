#include "weft/training/data/text_files.h"

#include <fmt/format.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>
#include <utility>

#include "weft/base/error.h"
#include "weft/training/data/permutation.h"

namespace weft {
namespace {

/// The matches of one glob; freed with the object.
class Matches {
 public:
  explicit Matches(const std::string& pattern) {
    result_ = ::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found_);
  }
  ~Matches() { ::globfree(&found_); }
  Matches(const Matches&) = delete;
  Matches& operator=(const Matches&) = delete;
  [[nodiscard]] std::vector<std::string> paths() const {
    return result_ == 0 ? std::vector<std::string>(found_.gl_pathv, found_.gl_pathv + found_.gl_pathc)
                        : std::vector<std::string>();
  }

 private:
  ::glob_t found_{};
  int result_;
};

bool is_regular(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode);
}

/// The path itself, or the regular files that a glob matches.
std::vector<std::string> files_of(const std::string& pattern) {
  struct stat status {};
  const bool exists = ::stat(pattern.c_str(), &status) == 0;
  const int problem = errno;
  if (exists && !S_ISREG(status.st_mode)) {
    throw Error(pattern + (S_ISDIR(status.st_mode) ? " is a folder, name its files: " + pattern + "/*"
                                                   : " is no regular file"));
  }
  if (exists) return {pattern};
  if (pattern.find_first_of("*?[") == std::string::npos) {
    throw Error(fmt::format("{} cannot be opened: {}", pattern, std::strerror(problem)));
  }
  std::vector<std::string> paths = Matches(pattern).paths();
  std::erase_if(paths, [](const std::string& path) { return !is_regular(path); });
  if (paths.empty()) throw Error(pattern + " matches no file");
  return paths;
}

ReadableFile open_text(const std::string& path) {
  ReadableFile file(path);
  if (file.size() == 0) throw Error(path + " is empty");
  return file;
}

}  // namespace

std::vector<std::string> find_text_files(const std::vector<std::string>& patterns) {
  std::vector<std::string> named;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    try {
      for (const std::string& path : files_of(patterns[i])) {
        static_cast<void>(open_text(path));
        named.push_back(path);
      }
    } catch (const Error& e) {
      throw DatasetItemError(i, e.what());
    }
  }
  std::sort(named.begin(), named.end());

  std::vector<std::string> files;
  std::set<std::pair<dev_t, ino_t>> taken;
  for (const std::string& path : named) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) throw Error(path + " cannot be opened: " + std::strerror(errno));
    if (taken.insert({status.st_dev, status.st_ino}).second) files.push_back(path);
  }
  return files;
}

TextFiles::TextFiles(const std::vector<std::string>& paths, std::uint64_t window, bool shuffle,
                     std::uint64_t seed, TextPart part)
    : shuffle_(shuffle), seed_(seed) {
  std::uint64_t bytes = 0;
  for (const std::string& path : paths) {
    files_.push_back(open_text(path));
    bytes += files_.back().size();
    ends_.push_back(bytes);
  }
  windows_ = bytes / window;
  if (windows_ == 0) {
    throw Error(fmt::format(
        "{} hold {} bytes, one sample needs sequence_length + 1 = {}",
        paths.size() == 1 ? paths.front() : fmt::format("the {} text files", paths.size()), bytes, window));
  }
  if (part == TextPart::all) return;
  const std::uint64_t held_out = std::max<std::uint64_t>(1, windows_ / 20);
  if (held_out == windows_) throw Error("the text files hold one sample, an evaluation needs one more");
  first_ = part == TextPart::training ? 0 : windows_ - held_out;
  windows_ = part == TextPart::training ? windows_ - held_out : held_out;
}

void TextFiles::read(std::uint64_t n, std::span<std::int32_t> tokens) const {
  const std::uint64_t place = n % windows_;
  const std::uint64_t window = shuffle_ ? Permutation(seed_, n / windows_, windows_).at(place) : place;
  std::uint64_t start = (first_ + window) * tokens.size();
  auto file = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), start) - ends_.begin());
  start -= file == 0 ? 0 : ends_[file - 1];
  for (std::size_t done = 0; done < tokens.size(); ++file, start = 0) {
    const std::uint64_t count = std::min<std::uint64_t>(files_[file].size() - start, tokens.size() - done);
    // The bytes lie at the end of where they widen to, which they leave behind them from the start on.
    const auto part = tokens.subspan(done, count);
    const auto bytes = std::as_writable_bytes(part).last(count);
    files_[file].read(start, bytes);
    for (std::size_t i = 0; i < count; ++i) part[i] = std::to_integer<std::int32_t>(bytes[i]);
    done += count;
  }
}

}  // namespace weft
