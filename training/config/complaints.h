#pragma once
// Everything that is wrong with a configuration, so that one look is enough.
#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/training/config/source.h"

namespace weft {

/// Collects complaints, and keeps out those that only follow from an earlier one: a key that could not be
/// read has no value that others could be compared with.
class Complaints {
 public:
  /// Takes a complaint, unless its key or a block around it has been given up.
  void add(const ValueError& complaint);
  /// The same for one that explains the others: it is told before all of them.
  void add_first(const ValueError& complaint);

  /// `path` and everything in it has no value, and what is said of it would be a consequence.
  void give_up(std::string path) { given_up_.insert(std::move(path)); }
  /// `path` has no value, but may stand elsewhere or be misspelled: that it is missing is no news.
  void excuse(std::string path) { excused_.insert(std::move(path)); }
  /// `path` is a block of which a key stands elsewhere: that it is missing is no news.
  void expect_missing(std::string path) { maybe_missing_.insert(std::move(path)); }
  /// True when it need not be said that `path` is missing.
  [[nodiscard]] bool is_excused(std::string_view path) const {
    return excused_.contains(path) || maybe_missing_.contains(path);
  }

  /// True when `path`, all in it and all around it could be read.
  [[nodiscard]] bool is_sound(std::string_view path) const;

  /// Calls `read`; what it throws is taken as a complaint, and `path` is given up then.
  void collect(const std::string& path, const std::function<void()>& read);

  /// Throws ConfigError with one line for each, in the order of their places, the file before overrides: up
  /// to 20, then how many more there are.
  void throw_if_any() const;

 private:
  struct Complaint {
    bool first = false;
    ValueError error;
  };
  [[nodiscard]] bool is_given_up(std::string_view path) const;
  void take(Complaint complaint);

  std::vector<Complaint> all_;
  std::set<std::string, std::less<>> given_up_;
  std::set<std::string, std::less<>> excused_;
  std::set<std::string, std::less<>> maybe_missing_;
};

}  // namespace weft
