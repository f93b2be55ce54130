#include "weft/training/config/yaml_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/scheduling/plan/text_table.h"
#include "weft/training/config/binary_scalar.h"
#include "weft/training/config/scalar.h"

namespace weft {
namespace {

bool is_safe(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' ||
         c == '.' || c == '/' || c == '+' || c == ' ';
}

/// Whether a string may stand without quotes: nothing in it is grammar, and it reads as a string for YAML 1.1
/// too.
bool may_be_plain(const std::string& text) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_safe)) return false;
  const char first = text.front();
  const bool starts_as_word =
      (first >= 'a' && first <= 'z') || (first >= 'A' && first <= 'Z') || first == '/' || first == '_';
  static constexpr std::string_view words[] = {"y",  "Y",  "n",  "N",  "yes", "Yes", "YES", "no",
                                               "No", "NO", "on", "On", "ON",  "off", "Off", "OFF"};
  if (!starts_as_word || text.back() == ' ') return false;
  if (is_null_text(text) || parse_boolean(text)) return false;
  return std::find(std::begin(words), std::end(words), text) == std::end(words);
}

std::string double_quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  result += '"';
  return result;
}

std::string scalar_text(const Node& node) {
  if (node.is_null()) return "null";
  if (node.plain) return node.text;  // a number, a truth value or a known word
  if (may_be_plain(node.text)) return node.text;
  if (to_utf8(node.text) != node.text) return fmt::format("!!binary \"{}\"", to_base64(node.text));
  return double_quoted(node.text);
}

bool is_one_line(const Node& node) {
  return node.kind == Node::Kind::scalar || node.children.empty() ||
         (node.kind == Node::Kind::list &&
          std::all_of(node.children.begin(), node.children.end(),
                      [](const Node& child) { return child.kind == Node::Kind::scalar; }));
}

std::string one_line(const Node& node) {
  if (node.kind == Node::Kind::scalar) return scalar_text(node);
  if (node.kind == Node::Kind::block) return "{}";
  std::vector<std::string> items;
  for (const Node& child : node.children) items.push_back(scalar_text(child));
  return fmt::format("[{}]", fmt::join(items, ", "));
}

/// Writes a block or list of blocks; the first line is already indented.
void write(const Node& node, std::size_t indent, std::string& out) {
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    if (i > 0) out.append(indent, ' ');
    const Node& child = node.children[i];
    if (node.kind == Node::Kind::list) {
      out += "- ";
      if (is_one_line(child)) {
        out += fmt::format("{}\n", one_line(child));
      } else {
        write(child, indent + 2, out);
      }
      continue;
    }
    out += fmt::format("{}:", scalar_text(Node::scalar(node.keys[i], false)));
    if (is_one_line(child)) {
      out += fmt::format(" {}\n", one_line(child));
    } else {
      out += "\n";
      out.append(indent + 2, ' ');
      write(child, indent + 2, out);
    }
  }
}

}  // namespace

std::string write_yaml(const Node& node) {
  if (is_one_line(node)) return fmt::format("{}\n", one_line(node));
  std::string out;
  write(node, 0, out);
  return out;
}

}  // namespace weft
