#pragma once
// The regular expressions of tokenizer.json, on PCRE2 with Unicode 16's letters, numbers and blanks.
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// A compiled pattern; any number of threads may use it, each with a Matcher of its own.
class SplitPattern {
 public:
  /// Throws TokenizerError that says what weft does not compute in `regex`.
  explicit SplitPattern(std::string_view regex);
  /// Matches `text` itself, letter by letter.
  static SplitPattern literal(std::string_view text);

  /// `regex` with \p{..}, \s, \d, \w and their opposites as explicit ranges, as PCRE2 gets it.
  [[nodiscard]] static std::string with_ranges(std::string_view regex);

 private:
  friend class Matcher;
  struct Code;
  std::shared_ptr<const Code> code_;
};

/// Finds the matches of patterns, for one thread.
class Matcher {
 public:
  Matcher();
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  struct Match {
    std::size_t begin;
    std::size_t end;
  };
  /// The first match in `text` (valid UTF-8) that begins at `from` or later and is not empty. Throws
  /// TokenizerError when the pattern takes more steps than its limit.
  [[nodiscard]] std::optional<Match> find(const SplitPattern& pattern, std::string_view text,
                                          std::size_t from);

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace weft
