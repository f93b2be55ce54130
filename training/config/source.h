#pragma once
// Where a configured value came from, and the form of what is said of it.
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/error.h"

namespace weft {

/// A place in a file, or in a `--set` or flag argument (which then stands in for the file).
struct Source {
  std::string file;  ///< as the user wrote it; empty = the value was set by a program or by default
  std::size_t line = 0;
  std::size_t column = 0;  ///< both count from 1
  std::size_t layer = 0;   ///< 0 = the file, n = the n-th override: the higher one wins

  /// `FILE:LINE:COLUMN: `, or nothing for a value without a place.
  [[nodiscard]] std::string prefix() const;
};

/// The places of all keys of a loaded configuration, by their whole path (`data_stages.0.name`).
class ConfigSources {
 public:
  void add(const std::string& path, Source source) { places_[path] = std::move(source); }
  [[nodiscard]] bool contains(std::string_view path) const { return places_.contains(path); }
  /// The place of `path`, else of the nearest block around it that has one, else none.
  [[nodiscard]] Source find(std::string_view path) const;

 private:
  std::map<std::string, Source, std::less<>> places_;
};

/// What is wrong with one value of a configuration.
class ValueError final : public ConfigError {
 public:
  ValueError(Source source, std::string_view path, const std::string& message)
      : ConfigError(message), source_(std::move(source)), path_(path) {}
  [[nodiscard]] const Source& source() const noexcept { return source_; }
  [[nodiscard]] const std::string& path() const noexcept { return path_; }

 private:
  Source source_;
  std::string path_;
};

/// `FILE:LINE:COLUMN: path: problem; allowed: ...` on one line, whatever bytes the parts hold; without the
/// last part when `allowed` is empty.
[[nodiscard]] ValueError config_error(const Source& source, std::string_view path, std::string_view problem,
                                      std::string_view allowed = {});

/// `text` in single quotes, shortened to 80 bytes, control characters as \xNN.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace weft
