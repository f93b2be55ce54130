#include "weft/training/config/overrides.h"

#include <fmt/format.h>

#include <charconv>

#include "weft/training/config/yaml_reader.h"

namespace weft {
namespace {

constexpr std::size_t longest_path = 16;

bool is_item_number(std::string_view part) {
  return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
}

std::vector<std::string> split_path(const ConfigOverride& change, const Source& source) {
  std::vector<std::string> parts(1);
  for (const char c : change.path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  for (const std::string& part : parts) {
    if (part.empty())
      throw config_error(source, change.path, "is no path of keys",
                         "keys and item numbers with points between them");
  }
  if (parts.size() > longest_path) throw config_error(source, change.path, "no such key");
  return parts;
}

Node& list_item(Node& list, const std::string& part, const std::string& list_path, const Source& source) {
  std::size_t number = 0;
  const bool fits = std::from_chars(part.data(), part.data() + part.size(), number).ec == std::errc();
  if (!is_item_number(part) || !fits || number > list.children.size()) {
    const std::size_t count = list.children.size();
    throw config_error(source, list_path,
                       fmt::format("is a list of {}, it has no item {}", count, in_quotes(part)),
                       count == 0 ? "0" : fmt::format("0 to {} ({} appends)", count, count));
  }
  if (number == list.children.size()) {
    list.children.push_back(Node::scalar(""));
    list.children.back().source = source;
  }
  return list.children[number];
}

/// The node of `part` below `parent`, made when it is missing.
Node& step_into(Node& parent, const std::string& part, const std::string& parent_path, const Source& source) {
  if (parent.is_null()) {
    parent = is_item_number(part) ? Node::list() : Node::block();
    parent.source = source;
  }
  if (parent.kind == Node::Kind::list) return list_item(parent, part, parent_path, source);
  if (parent.kind != Node::Kind::block) {
    throw config_error(source, parent_path,
                       fmt::format("is {} and has no key {}", parent.describe(), in_quotes(part)));
  }
  if (Node* known = parent.find(part)) return *known;
  Node& made = parent.add(part, Node::scalar(""));
  made.source = source;
  parent.key_sources.back() = source;
  return made;
}

void apply(Node& root, const ConfigOverride& change, std::size_t layer) {
  const Source source{change.flag, 1, 1, layer};
  const bool is_yaml = change.flag == "--set";
  Source value_source = source;
  value_source.column = change.value_column;
  Node value = is_yaml ? parse_yaml(change.value, value_source) : Node::scalar(change.value);
  if (!is_yaml) value.source = value_source;

  Node* place = &root;
  std::string path;
  for (const std::string& part : split_path(change, source)) {
    place = &step_into(*place, part, path, source);
    path += (path.empty() ? "" : ".") + part;
  }
  *place = std::move(value);
}

}  // namespace

ConfigOverride set_override(const std::string& argument) {
  const std::size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw config_error({"--set", 1, 1, 0}, "", in_quotes(argument) + " is not PATH=VALUE",
                       "for example tokens.train_steps=100");
  }
  return {"--set", argument.substr(0, equals), argument.substr(equals + 1), equals + 2};
}

ConfigOverride flag_override(std::string flag, std::string path, std::string value) {
  return {std::move(flag), std::move(path), std::move(value), 1};
}

void apply_overrides(Node& root, const std::vector<ConfigOverride>& overrides, Complaints& complaints) {
  std::size_t layer = 0;
  for (const ConfigOverride& change : overrides)
    complaints.collect(change.path, [&] { apply(root, change, ++layer); });
}

}  // namespace weft
