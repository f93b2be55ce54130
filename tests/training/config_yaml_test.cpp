// YAML as weft reads it: grammar by yaml-cpp, meaning and limits by weft.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "weft/base/text/foreign_text.h"
#include "weft/training/config/scalar.h"
#include "weft/training/config/yaml_reader.h"
#include "weft/training/config/yaml_writer.h"

namespace weft {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

Node parse(const std::string& text) { return parse_yaml(text, {"f", 1, 1, 0}); }

std::string error_of(const std::string& text) {
  try {
    (void)parse(text);
  } catch (const ConfigError& e) {
    return e.what();
  }
  return {};
}

TEST(YamlScalars, AreNumbersInTheDecimalFormsOfYaml12) {
  const std::vector<std::pair<std::string, double>> numbers = {
      {"0", 0},      {"-7", -7},  {"+7", 7}, {"70_000", 70000}, {"1e-5", 1e-5},       {"1.0e-05", 1e-5},
      {"1E3", 1000}, {".5", 0.5}, {"5.", 5}, {"012", 12},       {"1_0.2_5e1", 102.5}, {"3.0", 3},
  };
  for (const auto& [text, expected] : numbers) {
    double value = -1;
    EXPECT_EQ(parse_number(text, value), NumberProblem::none) << text;
    EXPECT_EQ(value, expected) << text;
  }
  for (const std::string text : {"0x10", "0o17", "0b1", "1e", "e5", ".", "-", "1__0", "_1", "1_", "1.2.3",
                                 ".inf", ".nan", "inf", "1 ", "1f1b", "1:30", "1e5.5", ""}) {
    double value = 0;
    EXPECT_EQ(parse_number(text, value), NumberProblem::not_a_number) << text;
  }
  double value = 0;
  EXPECT_EQ(parse_number("1e999", value), NumberProblem::out_of_range);
}

TEST(YamlScalars, AreIntegersOnlyWithoutPointAndExponent) {
  std::int64_t value = 0;
  EXPECT_EQ(parse_integer("9223372036854775807", value), NumberProblem::none);
  EXPECT_EQ(value, INT64_MAX);
  EXPECT_EQ(parse_integer("-9_223_372_036_854_775_808", value), NumberProblem::none);
  EXPECT_EQ(value, INT64_MIN);
  EXPECT_EQ(parse_integer("9223372036854775808", value), NumberProblem::out_of_range);
  for (const std::string text : {"1.0", "1e3", "0x1", "many", ""}) {
    EXPECT_EQ(parse_integer(text, value), NumberProblem::not_a_number) << text;
  }
}

TEST(YamlScalars, WriteNumbersThatReadBackToTheSameBits) {
  for (const double value : {0.0, 1.0, 1e-5, 0.1, 1.0 / 3, 3e300, 5e-324, 123456789.125, 1e16, -2.5e-7}) {
    const std::string text = format_number(value);
    double back = -1;
    EXPECT_EQ(parse_number(text, back), NumberProblem::none) << text;
    EXPECT_EQ(back, value) << text;
    EXPECT_THAT(text, HasSubstr("."));  // so that a YAML 1.1 reader sees a float
  }
}

TEST(YamlTree, KeepsOrderPlacesAndQuotes) {
  const Node root = parse("b: 1\na:\n  - 'x'\n  - [2, ~]\n");
  ASSERT_EQ(root.keys, (std::vector<std::string>{"b", "a"}));
  const Node& list = *root.find("a");
  EXPECT_FALSE(list.children[0].plain);
  EXPECT_EQ(list.children[0].source.line, 3U);
  EXPECT_EQ(list.children[0].source.column, 5U);
  EXPECT_TRUE(list.children[1].children[1].is_null());
  EXPECT_EQ(root.key_sources[1].line, 2U);
}

TEST(YamlTree, ExpandsAliases) {
  const Node root = parse("a: &x {k: [1]}\nb: *x\n");
  EXPECT_EQ(root.find("b")->find("k")->children[0].text, "1");
}

TEST(YamlTree, RefusesAKeyGivenTwiceWithItsPlaceAndPath) {
  EXPECT_EQ(error_of("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\n"), "f:5:3: b.c: is given twice");
  EXPECT_EQ(error_of("l:\n- {c: 1, 'c': 3}\n"), "f:2:10: l.0.c: is given twice");
}

TEST(YamlTree, RefusesBombs) {
  std::string aliases = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 9; ++i) {
    aliases += fmt::format("a{0}: &a{0} [", i);
    for (int k = 0; k < 10; ++k) aliases += fmt::format("*a{}, ", i - 1);
    aliases += "]\n";
  }
  EXPECT_THAT(error_of(aliases), HasSubstr("more than 100000 values"));
  std::string one_level = "a: &a [";
  for (int i = 0; i < 1000; ++i) one_level += "x, ";
  one_level += "]\nb: [";
  for (int i = 0; i < 200; ++i) one_level += "*a, ";
  EXPECT_THAT(error_of(one_level + "]\n"), HasSubstr("more than 100000 values"));
  EXPECT_THAT(error_of(std::string(5000, '[')), StartsWith("f:1:"));
  EXPECT_THAT(error_of(std::string(5000, '{')), StartsWith("f:1:"));
  std::string blocks;
  for (int i = 0; i < 300; ++i) blocks += fmt::format("{:{}}a:\n", "", i);
  EXPECT_THAT(error_of(blocks), HasSubstr("nested deeper"));
  std::string wide;
  for (int i = 0; i < 100'000; ++i) wide += fmt::format("k{}:\n", i);
  EXPECT_THAT(error_of(wide), HasSubstr("more than 100000 values"));
  EXPECT_THAT(error_of("a: &a [1, *a]\n"), HasSubstr("a.1: an alias that contains itself"));
}

TEST(YamlTree, RefusesWhatItWouldMisread) {
  EXPECT_THAT(error_of("a: !!int 5"), HasSubstr("the tag"));
  EXPECT_THAT(error_of("a: !x {}"), HasSubstr("the tag"));
  EXPECT_THAT(error_of("? [a, b]\n: 1\n"), HasSubstr("a key that is"));
  EXPECT_THAT(error_of("a: 1\n---\nb: 2\n"), HasSubstr("a second YAML document"));
  EXPECT_EQ(error_of(std::string("a: 1\nb: \0", 9)), "f:2:4: the control character \\x00; allowed: text");
  EXPECT_THAT(error_of("a: 1\n\x04\nb: 2\n"), HasSubstr("f:2:1: the control character \\x04"));
  EXPECT_THAT(error_of("a: 'b"), StartsWith("f:"));
  EXPECT_THAT(error_of("a: *unknown"), HasSubstr("not YAML"));
}

TEST(YamlTree, KeepsBytesThatAreNotUtf8) {
  const Node root = parse("a: caf\xe9 # \xff\xfe\nb: \"\xe9\"\n");
  EXPECT_EQ(root.find("a")->text, "caf\xe9");
  EXPECT_EQ(root.find("b")->text, "\xe9");
}

TEST(YamlTree, ReadsBinaryScalars) {
  const Node root = parse("a: !!binary Y2Fm6Q==\nb: !!binary |\n  //\n  4=\nc: !!binary ''\n");
  EXPECT_EQ(root.find("a")->text, "caf\xe9");
  EXPECT_EQ(root.find("b")->text, "\xff\xfe");
  EXPECT_EQ(root.find("c")->text, "");
  EXPECT_FALSE(root.find("c")->is_null());
  for (const std::string wrong : {"x", "a===", "=aaa", "aa=a", "====", "YWJj*", "YWJjé==="})
    EXPECT_THAT(error_of("a: !!binary \"" + wrong + "\""),
                HasSubstr("f:1:4: a: '" + wrong + "' is not base64"));
}

TEST(YamlTree, ReadsAStartThatLooksLikeUtf16AsItIs) {
  for (const std::string start : {"\xff\xfe", "\xfe\xff", "\xff", "\xfe"}) {
    EXPECT_EQ(parse(start).text, start);
    EXPECT_EQ(parse(start + "bc d").text, start + "bc d");
  }
  EXPECT_EQ(error_of("\xff: 1\nb: [\n"), error_of("x: 1\nb: [\n")) << "places are the same";
}

TEST(YamlTree, CountsColumnsOfASetArgumentFromItsStart) {
  try {
    (void)parse_yaml("[1, {a: 1, a: 2}]", {"--set", 1, 10, 1});
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(), "--set:1:21: 1.a: is given twice");
  }
}

TEST(YamlWriter, ReadsBackTheSameStrings) {
  std::string all_bytes;
  for (int i = 1; i < 256; ++i) all_bytes += static_cast<char>(i);
  for (const std::string& text : {std::string("plain"),
                                  std::string(""),
                                  std::string("null"),
                                  std::string("~"),
                                  std::string("true"),
                                  std::string("12"),
                                  std::string("1e5"),
                                  std::string("yes"),
                                  std::string("a: b"),
                                  std::string("# c"),
                                  std::string("- x"),
                                  std::string(" space "),
                                  std::string("quote\" back\\slash"),
                                  std::string("line\nend"),
                                  std::string("caf\xe9"),
                                  std::string("\xff\xfe"),
                                  std::string("\xed\xa0\x80"),
                                  std::string("\xc0\x80"),
                                  std::string("caf\xc3\xa9"),
                                  std::string("*.u8"),
                                  std::string("/usr/*.u8"),
                                  std::string("{a}"),
                                  std::string("%d"),
                                  std::string("1f1b"),
                                  std::string("a "),
                                  std::string("..."),
                                  std::string("---"),
                                  all_bytes}) {
    Node root = Node::block();
    root.add("key", Node::scalar(text, false));
    Node list = Node::list();
    list.children = {Node::scalar(text, false), Node::scalar("x", false)};
    root.add("list", list);
    const std::string written = write_yaml(root);
    EXPECT_EQ(to_utf8(written), written);
    const Node back = parse(written);
    EXPECT_EQ(back.find("key")->text, text);
    EXPECT_EQ(back.find("list")->children.at(0).text, text);
    EXPECT_FALSE(back.find("key")->is_null()) << text;
  }
}

// What PyYAML makes of them.
TEST(YamlMergeKeys, GiveABlockWhatItDoesNotSayItself) {
  const Node root = parse(
      "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\n"
      "own: {<<: *a, x: 5}\nafter: {x: 5, <<: *a}\nlist: {<<: [*a, *b]}\ntwice: {<<: *a, <<: *b}\n"
      "inner: &inner {<<: *b, w: 6}\nouter: {<<: *inner, y: 7}\nplain: {<<: {q: 8}}\nnone: {<<: []}\n");
  const auto value = [&](const std::string& block, const std::string& key) {
    const Node* found = root.find(block)->find(key);
    return found == nullptr ? std::string("none") : found->text;
  };
  EXPECT_EQ(value("own", "x") + value("own", "y"), "52");
  EXPECT_EQ(value("after", "x") + value("after", "y"), "52");
  EXPECT_EQ(value("list", "x") + value("list", "y") + value("list", "z"), "124");
  EXPECT_EQ(value("twice", "x") + value("twice", "y") + value("twice", "z"), "134");
  EXPECT_EQ(value("outer", "w") + value("outer", "y") + value("outer", "z"), "674");
  EXPECT_EQ(value("plain", "q"), "8");
  EXPECT_TRUE(root.find("none")->keys.empty());
  EXPECT_EQ(value("own", "<<"), "none");
  EXPECT_EQ(root.find("own")->find("y")->source.line, 1u) << "where it is written";
  EXPECT_EQ(root.find("own")->find("y")->source.column, 17u);
  EXPECT_EQ(parse("{'<<': 1}").keys.at(0), "<<") << "in quotes it is a key like others";
  EXPECT_EQ(
      error_of("a: {<<: 3}"),
      "f:1:9: a.<<: the number '3' cannot be merged; allowed: a block of keys, or a list of them, mostly as "
      "*aliases");
  EXPECT_THAT(error_of("a: &a {x: 1}\nb: {<<: [*a, y]}"), StartsWith("f:2:14: b.<<: 'y' cannot be merged"));
  EXPECT_THAT(error_of("a: &a {<<: *a}"), HasSubstr("an alias that contains itself"));
}

TEST(YamlWriter, WritesListsOfBlocks) {
  const std::string text =
      "stages:\n  - name: a\n    data:\n      seed: 1\n  - name: b\n    data: {}\nempty: []\n";
  EXPECT_EQ(write_yaml(parse(text)), text);
}

TEST(ConfigFile, IsRefusedAboveOneMebibyteAndWhenItCannotBeRead) {
  EXPECT_THROW((void)read_config_file("no such file"), ConfigError);
  EXPECT_THROW((void)read_config_file("/"), ConfigError);
  EXPECT_THROW((void)read_config_file("/dev/zero"), ConfigError);
  try {
    (void)read_config_file("");
    FAIL();
  } catch (const ConfigError& e) {
    EXPECT_STREQ(e.what(), "'' names no configuration file");
  }
}

}  // namespace
}  // namespace weft
