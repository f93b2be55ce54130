#include "weft/base/text/utf8.h"

#include <gtest/gtest.h>

namespace {

using namespace weft;

TEST(Utf8, ReplacesMaximalPartsOnceEach) {
  EXPECT_EQ(repair_utf8("plain, h\xC3\xA9, \xE6\x97\xA5, \xF0\x9F\x99\x82").replaced, 0u);
  // a lone continuation; a lead cut off by ASCII; three bytes of four; an overlong slash; a surrogate
  const RepairedText text = repair_utf8(
      "\x80"
      "a\xC3"
      "b\xF0\x9F\x99"
      "c\xC0\xAF\xED\xA0\x80");
  EXPECT_EQ(text.text,
            "\uFFFD"
            "a\uFFFD"
            "b\uFFFD"
            "c\uFFFD\uFFFD\uFFFD\uFFFD\uFFFD");
  EXPECT_EQ(text.replaced, 8u);
}

TEST(Utf8, TellsWhatOnlyLacksItsEnd) {
  EXPECT_TRUE(first_character("\xF0\x9F\x99").cut_off);
  EXPECT_TRUE(first_character("\xE2").cut_off);
  EXPECT_FALSE(first_character("\xE2\x28").cut_off);
  EXPECT_FALSE(first_character("\xFF").cut_off);
  EXPECT_FALSE(is_valid_utf8("long enough to be read by eights \xE2"));
}

TEST(Utf8, WritesWhatItReads) {
  for (const char32_t c : {U'a', U'\u00E9', U'\uFFFD', U'\U0010FFFF'}) {
    std::string text;
    append_utf8(text, c);
    EXPECT_EQ(first_character(text).code_point, c);
    EXPECT_EQ(first_character(text).length, text.size());
  }
}

}  // namespace
