#include "weft/model/weights/json_input.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "weft/base/error.h"
#include "weft/base/files/durable_file.h"
#include "weft/base/text/foreign_text.h"
#include "weft/model/weights/foreign_file.h"

namespace weft {
namespace {

constexpr int depth_limit = 64;

}  // namespace

nlohmann::json parse_json_object(std::string_view text, const std::string& file_name) {
  using nlohmann::json;
  // the parser takes a NUL for the end of the text
  if (const std::string what = foreign_file(text); !what.empty())
    throw CheckpointError(file_name + ": " + what);
  if (text.find('\0') != std::string_view::npos) throw CheckpointError(file_name + ": holds a NUL character");
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, json::parse_event_t event, json& value) {
    if (depth > depth_limit) throw CheckpointError(file_name + ": is nested too deeply");
    if (event == json::parse_event_t::object_start) keys.emplace_back();
    if (event == json::parse_event_t::object_end) keys.pop_back();
    if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
      throw CheckpointError(file_name + ": has the key " + quoted_name(value.get<std::string>()) + " twice");
    return true;
  };
  json tree;
  try {
    tree = json::parse(text.begin(), text.end(), watch);
  } catch (const json::exception& error) {
    std::string what = error.what();
    if (const auto end = what.find("] "); end != std::string::npos) what.erase(0, end + 2);
    throw CheckpointError(file_name + ": is not valid JSON: " + printable(what, 200));
  }
  if (!tree.is_object()) throw CheckpointError(file_name + ": is not a JSON object");
  return tree;
}

nlohmann::json read_json_object(const std::filesystem::path& path, std::size_t limit) {
  return parse_json_object(read_small_file(path, limit), path.string());
}

}  // namespace weft
