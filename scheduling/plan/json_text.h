#pragma once
// JSON that can be read and compared as text, written piece by piece.
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "weft/base/clock.h"

namespace weft {

/// One object: a member a line, of lists an element a line. Names need no escapes; bytes that are no UTF-8
/// are replaced.
class JsonText {
 public:
  void member(std::string_view name, const nlohmann::ordered_json& value);
  void begin_list(std::string_view name) { begin(name, '['); }
  void element(const nlohmann::ordered_json& value);
  void end_list() { end(']'); }
  void begin_object(std::string_view name) { begin(name, '{'); }
  void end_object() { end('}'); }
  /// The whole text, with a line's end.
  [[nodiscard]] std::string finish();

 private:
  void begin(std::string_view name, char bracket);
  void end(char bracket);
  void next_line();

  std::string text_ = "{";
  std::size_t depth_ = 1;
  bool is_first_ = true;  // of the innermost object or list
};

/// A time in plan.h's cost_unit.
[[nodiscard]] double in_units(Nanoseconds time);

}  // namespace weft
