#pragma once
// weft's reading of YAML 1.2 scalars: decimal numbers (`1e-5`, `70_000`), true and false, null.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace weft {

/// Empty, `~`, `null`, `Null`, `NULL`.
[[nodiscard]] bool is_null_text(std::string_view text);
/// `true`, `True`, `TRUE`, `false`, `False`, `FALSE`; none for anything else.
[[nodiscard]] std::optional<bool> parse_boolean(std::string_view text);

/// What a number can fail at: the text is no number, or it does not fit the type.
enum class NumberProblem { none, not_a_number, out_of_range };

/// Decimal digits with an optional sign and single underscores between digits.
NumberProblem parse_integer(std::string_view text, std::int64_t& value);
/// An integer, or digits with a point or an exponent; never infinite or NaN. Rounded correctly.
NumberProblem parse_number(std::string_view text, double& value);

/// The shortest text that parse_number reads back to the same bits and that Nanotron's YAML 1.1 reader takes
/// for a float too (`1.0e-05`).
[[nodiscard]] std::string format_number(double value);

}  // namespace weft
