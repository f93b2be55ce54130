#include "weft/scheduling/plan/json_text.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "weft/scheduling/plan/plan.h"

namespace weft {

namespace {

std::string dumped(const nlohmann::ordered_json& value) {
  return value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace

void JsonText::next_line() {
  if (!std::exchange(is_first_, false)) text_ += ',';
  text_ += '\n';
  text_.append(2 * depth_, ' ');
}

void JsonText::member(std::string_view name, const nlohmann::ordered_json& value) {
  next_line();
  text_ += dumped(name);
  text_ += ": ";
  text_ += dumped(value);
}

void JsonText::element(const nlohmann::ordered_json& value) {
  next_line();
  text_ += dumped(value);
}

void JsonText::begin(std::string_view name, char bracket) {
  next_line();
  text_ += dumped(name);
  text_ += ": ";
  text_ += bracket;
  ++depth_;
  is_first_ = true;
}

void JsonText::end(char bracket) {
  --depth_;
  is_first_ = true;
  next_line();
  is_first_ = false;
  text_ += bracket;
}

std::string JsonText::finish() {
  depth_ = 0;
  is_first_ = true;
  next_line();
  text_ += "}\n";
  return std::exchange(text_, {});
}

double in_units(Nanoseconds time) { return static_cast<double>(time) / static_cast<double>(cost_unit); }

}  // namespace weft
