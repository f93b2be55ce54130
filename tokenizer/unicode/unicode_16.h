#pragma once
// What Unicode 16.0 says about code points. Debian's PCRE2 knows an older version and counts U+180E as a
// blank, which the tokenizers of Hugging Face do not, so patterns get these ranges spelled out.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace weft::unicode {

/// The general categories, by their names in the standard.
enum class Category : std::uint8_t {
  Lu,
  Ll,
  Lt,
  Lm,
  Lo,
  Mn,
  Mc,
  Me,
  Nd,
  Nl,
  No,
  Pc,
  Pd,
  Ps,
  Pe,
  Pi,
  Pf,
  Po,
  Sm,
  Sc,
  Sk,
  So,
  Zs,
  Zl,
  Zp,
  Cc,
  Cf,
  Cs,
  Co,
  Cn,
};

/// From `first` to the code point before the next run.
struct CategoryRun {
  char32_t first;
  Category category;
};
inline constexpr std::size_t category_runs = 4099;
extern const std::array<CategoryRun, category_runs> categories;

inline constexpr char32_t last_code_point = 0x10FFFF;

/// Code points from `first` to `last`.
struct Range {
  char32_t first;
  char32_t last;
};
/// Ascending, with gaps between them.
using Ranges = std::vector<Range>;

/// A general category (`Lu`) or a group of them (`L`); none for any other name.
[[nodiscard]] std::optional<Ranges> property(std::string_view name);
/// White_Space, the `\s` of tokenizers.
[[nodiscard]] const Ranges& white_space();
/// The `\w` of tokenizers: letters, marks, decimal digits, connectors, joiners and what is Alphabetic
/// besides.
[[nodiscard]] const Ranges& word_characters();
/// All other code points but the surrogates.
[[nodiscard]] Ranges complement(const Ranges& ranges);
[[nodiscard]] bool contains(const Ranges& ranges, char32_t code_point);

}  // namespace weft::unicode
