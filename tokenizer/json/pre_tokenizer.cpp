#include "weft/tokenizer/json/pre_tokenizer.h"

#include <utility>

namespace weft {

void PreTokenizer::add_split(SplitPattern pattern, Delimiter delimiter, bool invert) {
  Step step{Step::Kind::split, {std::move(pattern)}, delimiter, invert, {}, Prepend::never};
  steps_.push_back(std::move(step));
}

void PreTokenizer::add_prefix_space() { steps_.push_back({Step::Kind::prefix_space, {}, {}, false, {}, {}}); }

void PreTokenizer::add_metaspace(std::string replacement, Prepend prepend, bool split) {
  SplitPattern pattern = SplitPattern::literal(replacement);
  steps_.push_back({Step::Kind::metaspace, {}, {}, false, std::move(replacement), prepend});
  if (split) add_split(std::move(pattern), Delimiter::merged_with_next, false);
}

void PreTokenizer::split(const Step& step, std::string_view text, Matcher& matcher,
                         std::vector<std::string_view>& words) {
  std::size_t word = 0;  // begin of the word that is being put together, for those that merge
  bool before = false;   // the part before was a delimiter
  const auto write = [&](std::size_t begin, std::size_t end) {
    if (end > begin) words.push_back(text.substr(begin, end - begin));
  };
  const auto part = [&](std::size_t begin, std::size_t end, bool matches) {
    if (begin == end) return;
    const bool delimiter = matches != step.invert;
    switch (step.delimiter) {
      case Delimiter::removed:
        if (!delimiter) write(begin, end);
        break;
      case Delimiter::isolated:
        write(begin, end);
        break;
      case Delimiter::merged_with_previous:  // a delimiter belongs to the word before it
        if (!delimiter || before) {
          write(word, begin);
          word = begin;
        }
        break;
      case Delimiter::merged_with_next:  // and here to the word behind it
        if (delimiter || !before) {
          write(word, begin);
          word = begin;
        }
        break;
      case Delimiter::contiguous:
        if (delimiter != before) {
          write(word, begin);
          word = begin;
        }
        break;
    }
    before = delimiter;
  };
  std::size_t done = 0;
  while (const auto match = matcher.find(step.pattern.front(), text, done)) {
    part(done, match->begin, false);
    part(match->begin, match->end, true);
    done = match->end;
  }
  part(done, text.size(), false);
  if (step.delimiter != Delimiter::removed && step.delimiter != Delimiter::isolated) write(word, text.size());
}

void PreTokenizer::cut(std::string_view text, bool first, Matcher& matcher, Words& words) const {
  words.clear();
  if (text.empty()) return;
  words.list.push_back(text);
  for (const Step& step : steps_) {
    std::vector<std::string_view> before = std::exchange(words.list, {});
    for (std::size_t i = 0; i < before.size(); ++i) {
      const std::string_view word = before[i];
      switch (step.kind) {
        case Step::Kind::split:
          split(step, word, matcher, words.list);
          break;
        case Step::Kind::prefix_space:
          if (word.front() == ' ')
            words.list.push_back(word);
          else
            words.list.push_back(words.made.emplace_back(1, ' ').append(word));
          break;
        case Step::Kind::metaspace: {
          std::string& made = words.made.emplace_back();
          const bool wanted =
              step.prepend == Prepend::always || (step.prepend == Prepend::first && first && i == 0);
          for (const char c : word)
            if (c == ' ')
              made += step.replacement;
            else
              made += c;
          if (wanted && made.compare(0, step.replacement.size(), step.replacement) != 0)
            made.insert(0, step.replacement);
          words.list.push_back(made);
          break;
        }
      }
    }
  }
}

}  // namespace weft
