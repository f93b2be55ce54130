#include "weft/tokenizer/split_pattern.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <pcre2.h>

#include <new>

#include "weft/base/error.h"
#include "weft/tokenizer/unicode/unicode_16.h"

namespace weft {
namespace {

// A match that backtracks more often is given up: patterns come from files.
constexpr std::uint32_t match_limit = 100'000'000;
constexpr std::size_t smallest_stack = 64u << 10;
constexpr std::size_t largest_stack = 64u << 20;

std::string message_of(int code) {
  PCRE2_UCHAR text[256];
  pcre2_get_error_message(code, text, sizeof text);
  return reinterpret_cast<const char*>(text);
}

std::string listed(const unicode::Ranges& ranges) {
  std::string text;
  for (const unicode::Range& range : ranges)
    text += range.first == range.last
                ? fmt::format("\\x{{{:x}}}", static_cast<unsigned>(range.first))
                : fmt::format("\\x{{{:x}}}-\\x{{{:x}}}", static_cast<unsigned>(range.first),
                              static_cast<unsigned>(range.last));
  return text;
}

// Reads one escape that stands for a set of characters; none for others.
struct Escape {
  unicode::Ranges ranges;
  std::size_t length = 0;  // of the text
};
std::optional<Escape> set_escape(std::string_view rest) {
  const char kind = rest.size() > 1 ? rest[1] : '\0';
  switch (kind) {
    case 's':
      return Escape{unicode::white_space(), 2};
    case 'S':
      return Escape{unicode::complement(unicode::white_space()), 2};
    case 'd':
      return Escape{*unicode::property("Nd"), 2};
    case 'D':
      return Escape{unicode::complement(*unicode::property("Nd")), 2};
    case 'w':
      return Escape{unicode::word_characters(), 2};
    case 'W':
      return Escape{unicode::complement(unicode::word_characters()), 2};
    case 'p':
    case 'P':
      break;
    default:
      return std::nullopt;
  }
  std::string_view name = rest.substr(2, 1);
  std::size_t length = 3;
  if (name == "{") {
    const std::size_t end = rest.find('}');
    if (end == std::string_view::npos) throw TokenizerError("\\p{ without its }");
    name = rest.substr(3, end - 3);
    length = end + 1;
  }
  bool opposite = kind == 'P';
  if (name.substr(0, 1) == "^") {
    opposite = !opposite;
    name.remove_prefix(1);
  }
  const auto ranges = unicode::property(name);
  if (!ranges) throw TokenizerError(fmt::format("\\p{{{}}} is no general category of Unicode", name));
  return Escape{opposite ? unicode::complement(*ranges) : *ranges, length};
}

}  // namespace

struct SplitPattern::Code {
  pcre2_code* code = nullptr;
  std::string regex;

  ~Code() { pcre2_code_free(code); }
};

std::string SplitPattern::with_ranges(std::string_view regex) {
  std::string text;
  bool in_class = false;
  for (std::size_t i = 0; i < regex.size();) {
    const char c = regex[i];
    if (c == '\\') {
      if (i + 1 == regex.size()) throw TokenizerError("a \\ ends the pattern");
      if (const auto escape = set_escape(regex.substr(i))) {
        text += in_class ? listed(escape->ranges) : fmt::format("[{}]", listed(escape->ranges));
        i += escape->length;
        continue;
      }
      const char next = regex[i + 1];
      // What the two engines read alike: control characters, numbers of characters, and marks taken
      // literally.
      const bool mark =
          !(next >= '0' && next <= '9') && !(next >= 'a' && next <= 'z') && !(next >= 'A' && next <= 'Z');
      if (!mark && std::string_view("rntfvxu").find(next) == std::string_view::npos)
        throw TokenizerError(fmt::format("\\{} has no meaning here that weft computes", next));
      if (next == 'u') {  // \uXXXX
        if (i + 6 > regex.size()) throw TokenizerError("\\u without its four digits");
        text += fmt::format("\\x{{{}}}", regex.substr(i + 2, 4));
        i += 6;
        continue;
      }
      text += next == 'v' ? std::string("\\x{b}") : std::string(regex.substr(i, 2));
      i += 2;
      continue;
    }
    if (in_class) {
      if (c == '[' || (c == '&' && regex.substr(i, 2) == "&&"))
        throw TokenizerError("sets inside of sets are not computed");
      if (c == ']') in_class = false;
    } else if (c == '[') {
      in_class = true;
      text += c;
      ++i;
      if (i < regex.size() && regex[i] == '^') {
        text += '^';
        ++i;
      }
      if (i < regex.size() && regex[i] == ']') throw TokenizerError("an empty set, [] or [^]");
      continue;
    } else if (c == '(' && regex.substr(i, 2) == "(?") {
      const std::string_view rest = regex.substr(i + 2);
      const auto starts = [&](std::string_view word) { return rest.substr(0, word.size()) == word; };
      if (!(starts(":") || starts("i:") || starts("!") || starts("=") || starts("<!") || starts("<=") ||
            starts(">")))
        throw TokenizerError(fmt::format("the group (?{} is not computed", rest.substr(0, 2)));
    } else if (c == '(' && regex.substr(i, 2) == "(*") {
      throw TokenizerError("verbs, (*...), are not computed");
    }
    text += c;
    ++i;
  }
  return text;
}

SplitPattern::SplitPattern(std::string_view regex) {
  const std::string text = with_ranges(regex);
  int error = 0;
  PCRE2_SIZE place = 0;
  auto code = std::make_shared<Code>();
  code->regex = regex;
  // As in the Ruby syntax that these patterns are written in: ^ and $ are ends of lines, a line ends with \n.
  const std::unique_ptr<pcre2_compile_context, decltype(&pcre2_compile_context_free)> context(
      pcre2_compile_context_create(nullptr), &pcre2_compile_context_free);
  if (context == nullptr) throw std::bad_alloc();
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  code->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                             PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, &error,
                             &place, context.get());
  if (code->code == nullptr)
    throw TokenizerError(fmt::format("the pattern {} cannot be compiled: {}", regex, message_of(error)));
  // Where there is no just-in-time compiler the interpreter does it, with the same matches.
  pcre2_jit_compile(code->code, PCRE2_JIT_COMPLETE);
  code_ = std::move(code);
}

SplitPattern SplitPattern::literal(std::string_view text) {
  std::string regex;
  for (const char c : text) {
    if (std::string_view("\\^$.[]|()?*+{}-").find(c) != std::string_view::npos) regex += '\\';
    regex += c;
  }
  return SplitPattern(regex);
}

struct Matcher::Memory {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(smallest_stack, largest_stack, nullptr);

  Memory() {
    if (data == nullptr || context == nullptr) throw std::bad_alloc();
    pcre2_set_match_limit(context, match_limit);
    if (stack != nullptr) pcre2_jit_stack_assign(context, nullptr, stack);
  }
  ~Memory() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

Matcher::Matcher() : memory_(std::make_unique<Memory>()) {}
Matcher::~Matcher() = default;

std::optional<Matcher::Match> Matcher::find(const SplitPattern& pattern, std::string_view text,
                                            std::size_t from) {
  while (from <= text.size()) {
    const int found = pcre2_match(pattern.code_->code, reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                                  from, PCRE2_NO_UTF_CHECK, memory_->data, memory_->context);
    if (found == PCRE2_ERROR_NOMATCH) return std::nullopt;
    if (found < 0)
      throw TokenizerError(fmt::format("the pattern {} gives up on a text of {} bytes: {}",
                                       pattern.code_->regex, text.size(), message_of(found)));
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(memory_->data);
    if (ends[1] > ends[0]) return Match{ends[0], ends[1]};
    from = ends[1] + 1;  // an empty match: on with the next character
    while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xC0) == 0x80) ++from;
  }
  return std::nullopt;
}

}  // namespace weft
