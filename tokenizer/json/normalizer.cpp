#include "weft/tokenizer/json/normalizer.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "weft/base/error.h"

namespace weft {
namespace {

std::string composed(const std::string& text) {
  // Plain ASCII is composed already.
  if (std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; }))
    return text;
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t length = utf8proc_map(
      reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
      &raw, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owner(raw, &std::free);
  if (length < 0) throw TokenizerError(std::string("NFC: ") + utf8proc_errmsg(length));
  return {reinterpret_cast<const char*>(raw), static_cast<std::size_t>(length)};
}

std::string replaced(const std::string& text, const SplitPattern& pattern, const std::string& content,
                     Matcher& matcher) {
  std::string result;
  std::size_t done = 0;
  while (const auto match = matcher.find(pattern, text, done)) {
    result.append(text, done, match->begin - done);
    result += content;
    done = match->end;
  }
  return result.append(text, done, std::string::npos);
}

}  // namespace

void Normalizer::add_prepend(std::string text) {
  steps_.push_back({Step::Kind::prepend, std::move(text), {}});
}
void Normalizer::add_replace(SplitPattern pattern, std::string content) {
  steps_.push_back({Step::Kind::replace, std::move(content), {std::move(pattern)}});
}
void Normalizer::add_nfc() { steps_.push_back({Step::Kind::nfc, {}, {}}); }

std::string Normalizer::apply(std::string_view text, Matcher& matcher) const {
  std::string result(text);
  for (const Step& step : steps_) {
    switch (step.kind) {
      case Step::Kind::prepend:
        if (!result.empty()) result.insert(0, step.content);
        break;
      case Step::Kind::replace:
        result = replaced(result, step.pattern.front(), step.content, matcher);
        break;
      case Step::Kind::nfc:
        result = composed(result);
        break;
    }
  }
  return result;
}

}  // namespace weft
