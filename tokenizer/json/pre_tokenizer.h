#pragma once
// How a normalized text is cut into words; merges never cross them.
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "weft/tokenizer/split_pattern.h"

namespace weft {

/// What becomes of the matches of a pattern that cuts.
enum class Delimiter : std::uint8_t { removed, isolated, merged_with_previous, merged_with_next, contiguous };

/// Words of a text, as views of it or of texts made on the way, which live here.
struct Words {
  std::vector<std::string_view> list;
  std::deque<std::string> made;

  void clear() {
    list.clear();
    made.clear();
  }
};

/// The pre-tokenizers of tokenizer.json that weft computes, one after another.
class PreTokenizer {
 public:
  /// `invert`: what does not match is what cuts.
  void add_split(SplitPattern pattern, Delimiter delimiter, bool invert);
  /// A blank before every text that does not begin with one.
  void add_prefix_space();
  enum class Prepend : std::uint8_t { never, first, always };
  /// Blanks become `replacement`, and one is put before texts that do not begin with one: before all, before
  /// the first one of a document, or before none.
  void add_metaspace(std::string replacement, Prepend prepend, bool split);

  /// Cuts one part of a document; `first`: it is where the document begins. Words are never empty.
  void cut(std::string_view text, bool first, Matcher& matcher, Words& words) const;

 private:
  struct Step {
    enum class Kind { split, prefix_space, metaspace } kind;
    std::vector<SplitPattern> pattern;  // one, of split
    Delimiter delimiter = Delimiter::isolated;
    bool invert = false;
    std::string replacement;
    Prepend prepend = Prepend::never;
  };
  static void split(const Step& step, std::string_view text, Matcher& matcher,
                    std::vector<std::string_view>& words);
  std::vector<Step> steps_;
};

}  // namespace weft
