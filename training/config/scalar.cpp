#include "weft/training/config/scalar.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace weft {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Takes digits (with single underscores between them) from the front of `text`; false when there are none.
bool take_digits(std::string_view& text, std::string& digits) {
  if (text.empty() || !is_digit(text.front())) return false;
  while (!text.empty()) {
    if (is_digit(text.front())) {
      digits += text.front();
    } else if (text.size() < 2 || text.front() != '_' || !is_digit(text[1])) {
      break;
    }
    text.remove_prefix(1);
  }
  return true;
}

void take_sign(std::string_view& text, std::string& digits) {
  if (text.empty() || (text.front() != '-' && text.front() != '+')) return;
  if (text.front() == '-') digits += '-';
  text.remove_prefix(1);
}

/// The number without underscores and plus sign, as from_chars reads it; none when `text` is no number.
std::optional<std::string> plain_number(std::string_view text) {
  std::string digits;
  take_sign(text, digits);
  const bool whole = take_digits(text, digits);
  bool fraction = false;
  if (!text.empty() && text.front() == '.') {
    text.remove_prefix(1);
    digits += '.';
    fraction = take_digits(text, digits);
  }
  if (!whole && !fraction) return std::nullopt;
  if (!text.empty() && (text.front() == 'e' || text.front() == 'E')) {
    text.remove_prefix(1);
    digits += 'e';
    take_sign(text, digits);
    if (!take_digits(text, digits)) return std::nullopt;
  }
  if (!text.empty()) return std::nullopt;
  return digits;
}

}  // namespace

bool is_null_text(std::string_view text) {
  return text.empty() || text == "~" || text == "null" || text == "Null" || text == "NULL";
}

std::optional<bool> parse_boolean(std::string_view text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

NumberProblem parse_integer(std::string_view text, std::int64_t& value) {
  std::string digits;
  take_sign(text, digits);
  if (!take_digits(text, digits) || !text.empty()) return NumberProblem::not_a_number;
  const auto result = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  return result.ec == std::errc() ? NumberProblem::none : NumberProblem::out_of_range;
}

NumberProblem parse_number(std::string_view text, double& value) {
  const std::optional<std::string> digits = plain_number(text);
  if (!digits) return NumberProblem::not_a_number;
  const auto result = std::from_chars(digits->data(), digits->data() + digits->size(), value);
  if (result.ec != std::errc()) return NumberProblem::out_of_range;
  return std::isfinite(value) ? NumberProblem::none : NumberProblem::out_of_range;
}

std::string format_number(double value) {
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".") == std::string::npos) {
    const std::size_t exponent = text.find('e');
    text.insert(exponent == std::string::npos ? text.size() : exponent, ".0");
  }
  return text;
}

}  // namespace weft
