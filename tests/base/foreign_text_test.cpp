// Bytes from outside as text for terminals.
#include "weft/base/text/foreign_text.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace weft {
namespace {

TEST(ForeignText, ATerminalObeysNothingInIt) {
  const std::pair<std::string, std::string> cases[] = {
      {"plain text, with 'quotes' and \\", "plain text, with 'quotes' and \\"},
      {"\x1b[31m\r\n\t\x7f", "\\x1b[31m\\x0d\\x0a\\x09\\x7f"},
      {"gr\u00fc\u00df\u20ac\U0001f600", "gr\u00fc\u00df\u20ac\U0001f600"},
      {"\u009b2J", "\\xc2\\x9b2J"},
      {"a\u202eb\u200bc\u2066\ufeff", "a\\xe2\\x80\\xaeb\\xe2\\x80\\x8bc\\xe2\\x81\\xa6\\xef\\xbb\\xbf"},
      {"a\xff\xc3", "a\\xff\\xc3"},
      {std::string("a\0b", 3), "a\\x00b"}};
  for (const auto& [text, shown] : cases) {
    EXPECT_EQ(printable(text), shown);
    EXPECT_EQ(printable(printable(text)), shown);
  }
}

TEST(ForeignText, IsCutToAReadableLength) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(printable("ab\u00fc", 3), "ab\\xc3...");
  EXPECT_LT(quoted_name(std::string(10'000, 'x')).size(), 130u);
}

TEST(ForeignText, NamesAreQuotedWhereTheyCouldBeMisread) {
  EXPECT_EQ(shown_name("model.layers.0"), "model.layers.0");
  EXPECT_EQ(shown_name(""), "\"\"");
  EXPECT_EQ(shown_name("a b"), "\"a b\"");
  EXPECT_EQ(shown_name("a\n"), "\"a\\x0a\"");
  EXPECT_EQ(shown_name(std::string(121, 'x')), quoted_name(std::string(121, 'x')));
  EXPECT_EQ(quoted_name("lm_head"), "\"lm_head\"");
}

}  // namespace
}  // namespace weft
