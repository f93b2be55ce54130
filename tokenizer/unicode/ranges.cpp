#include <algorithm>

#include "weft/tokenizer/unicode/unicode_16.h"

namespace weft::unicode {
namespace {

constexpr std::array<std::string_view, 30> names = {
    "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe",
    "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};

void append(Ranges& ranges, char32_t first, char32_t last) {
  if (!ranges.empty() && ranges.back().last + 1 == first)
    ranges.back().last = last;
  else
    ranges.push_back({first, last});
}

template <class Wanted>
Ranges where(const Wanted& wanted) {
  Ranges ranges;
  for (std::size_t i = 0; i < categories.size(); ++i)
    if (wanted(categories[i].category))
      append(ranges, categories[i].first,
             i + 1 < categories.size() ? categories[i + 1].first - 1 : last_code_point);
  return ranges;
}

Ranges united(Ranges a, const Ranges& b) {
  a.insert(a.end(), b.begin(), b.end());
  std::sort(a.begin(), a.end(), [](const Range& x, const Range& y) { return x.first < y.first; });
  Ranges all;
  for (const Range& range : a)
    if (!all.empty() && range.first <= all.back().last + 1)
      all.back().last = std::max(all.back().last, range.last);
    else
      all.push_back(range);
  return all;
}

}  // namespace

std::optional<Ranges> property(std::string_view name) {
  const auto is_named = [&](Category category) {
    const std::string_view full = names[static_cast<std::size_t>(category)];
    return full == name || (name.size() == 1 && full[0] == name[0]);
  };
  Ranges ranges = where(is_named);
  if (ranges.empty()) return std::nullopt;
  return ranges;
}

const Ranges& white_space() {
  static const Ranges ranges = {{0x9, 0xD},       {0x20, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
                                {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
                                {0x205F, 0x205F}, {0x3000, 0x3000}};
  return ranges;
}

const Ranges& word_characters() {
  // Other_Alphabetic holds marks, letter numbers and these circled and squared letters.
  static const Ranges ranges = united(
      where([](Category category) { return category <= Category::Nl || category == Category::Pc; }),
      {{0x200C, 0x200D}, {0x24B6, 0x24E9}, {0x1F130, 0x1F149}, {0x1F150, 0x1F169}, {0x1F170, 0x1F189}});
  return ranges;
}

Ranges complement(const Ranges& ranges) {
  Ranges others;
  char32_t next = 0;
  const auto add = [&](char32_t first, char32_t last) {
    if (first <= last) others.push_back({first, last});
  };
  const auto gap = [&](char32_t first, char32_t last) {  // without the surrogates, which no text holds
    if (last < 0xD800 || first > 0xDFFF) return add(first, last);
    if (first < 0xD800) add(first, 0xD7FF);
    if (last > 0xDFFF) add(0xE000, last);
  };
  for (const Range& range : ranges) {
    if (range.first > next) gap(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= last_code_point) gap(next, last_code_point);
  return others;
}

bool contains(const Ranges& ranges, char32_t code_point) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), code_point,
                                      [](char32_t x, const Range& range) { return x < range.first; });
  return after != ranges.begin() && code_point <= (after - 1)->last;
}

}  // namespace weft::unicode
