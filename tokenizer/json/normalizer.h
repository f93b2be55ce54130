#pragma once
// What a text becomes before it is cut into words.
#include <string>
#include <string_view>
#include <vector>

#include "weft/tokenizer/split_pattern.h"

namespace weft {

/// The normalizers of tokenizer.json that weft computes, one after another.
class Normalizer {
 public:
  void add_prepend(std::string text);
  void add_replace(SplitPattern pattern, std::string content);
  /// Unicode's canonical composition.
  void add_nfc();

  [[nodiscard]] bool empty() const noexcept { return steps_.empty(); }
  /// `text` is valid UTF-8.
  [[nodiscard]] std::string apply(std::string_view text, Matcher& matcher) const;

 private:
  struct Step {
    enum class Kind { prepend, replace, nfc } kind;
    std::string content;
    std::vector<SplitPattern> pattern;  // one, of replace
  };
  std::vector<Step> steps_;
};

}  // namespace weft
