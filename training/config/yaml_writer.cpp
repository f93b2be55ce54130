#include "weft/training/config/yaml_writer.h"

#include <yaml-cpp/binary.h>
#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <algorithm>
#include <array>

#include "weft/base/text/foreign_text.h"
#include "weft/training/config/scalar.h"

namespace weft {
namespace {

/// Whether yaml-cpp would write a string without quotes that another reader, or weft's own, takes for
/// something else: a number, a truth value, null, and YAML 1.1's words for these.
bool needs_quotes(const std::string& text) {
  constexpr std::array<std::string_view, 16> words = {"y",  "Y",  "n",  "N",  "yes", "Yes", "YES", "no",
                                                      "No", "NO", "on", "On", "ON",  "off", "Off", "OFF"};
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (text.empty() || !(is_letter(text.front()) || text.front() == '/' || text.front() == '_')) return true;
  return is_null_text(text) || parse_boolean(text) ||
         std::find(words.begin(), words.end(), text) != words.end();
}

void write_scalar(YAML::Emitter& out, const Node& node) {
  if (node.is_null()) {
    out << YAML::Null;
  } else if (node.plain) {
    out << node.text;  // a number, a truth value or a known word
  } else if (to_utf8(node.text) != node.text) {
    out << YAML::Binary(reinterpret_cast<const unsigned char*>(node.text.data()), node.text.size());
  } else if (needs_quotes(node.text)) {
    out << YAML::DoubleQuoted << node.text;
  } else {
    out << node.text;
  }
}

void write(YAML::Emitter& out, const Node& node) {
  if (node.kind == Node::Kind::scalar) return write_scalar(out, node);
  if (node.kind == Node::Kind::block) {
    if (node.children.empty()) out << YAML::Flow;
    out << YAML::BeginMap;
    for (std::size_t i = 0; i < node.children.size(); ++i) {
      out << YAML::Key;
      write_scalar(out, Node::scalar(node.keys[i], false));
      out << YAML::Value;
      write(out, node.children[i]);
    }
    out << YAML::EndMap;
    return;
  }
  const bool scalars = std::all_of(node.children.begin(), node.children.end(),
                                   [](const Node& child) { return child.kind == Node::Kind::scalar; });
  if (scalars) out << YAML::Flow;
  out << YAML::BeginSeq;
  for (const Node& child : node.children) write(out, child);
  out << YAML::EndSeq;
}

}  // namespace

std::string write_yaml(const Node& node) {
  YAML::Emitter out;
  out.SetNullFormat(YAML::LowerNull);
  write(out, node);
  return std::string(out.c_str(), out.size()) + "\n";
}

}  // namespace weft
