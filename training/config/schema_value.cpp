#include "weft/training/config/schema_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "weft/base/text/spelling.h"
#include "weft/training/config/scalar.h"

namespace weft::schema {
namespace {

[[noreturn]] void wrong_type(const Node& node, const std::string& path, std::string_view expected) {
  throw config_error(node.source, path, fmt::format("{} where {} is expected", node.describe(), expected),
                     expected);
}

std::string range_text(IntegerRange range) {
  return range.least == range.most ? fmt::format("{}", range.least)
                                   : fmt::format("an integer from {} to {}", range.least, range.most);
}

std::string range_text(NumberRange range) {
  std::string text = fmt::format("a number {} {}", range.with_least ? "from" : "above", range.least);
  if (std::isfinite(range.most))
    text += fmt::format(" {} {}", range.with_most ? "to" : "and below", range.most);
  return text;
}

std::string double_range_text(NumberRange range) {
  range.most = std::min(range.most, std::numeric_limits<double>::max());
  return range_text(range);
}

bool read_boolean(const Node& node, const std::string& path) {
  const auto value = node.kind == Node::Kind::scalar && node.plain ? parse_boolean(node.text) : std::nullopt;
  if (!value) wrong_type(node, path, "true or false");
  return *value;
}

using ReadText = std::string (*)(const Node& node, const std::string& path);

std::vector<std::string> read_texts(const Node& node, const std::string& path, ReadText read,
                                    Reading& reading) {
  if (node.kind == Node::Kind::scalar) return {read(node, path)};
  if (node.kind != Node::Kind::list) wrong_type(node, path, "a list of strings");
  std::vector<std::string> result;
  for (std::size_t i = 0; i < node.children.size(); ++i) {
    const std::string item_path = join(path, std::to_string(i));
    reading.sources.add(item_path, node.children[i].source);
    reading.complaints.collect(item_path, [&] { result.push_back(read(node.children[i], item_path)); });
  }
  return result;
}

/// The name of a file or folder.
std::string read_path(const Node& node, const std::string& path) {
  const std::string name = read_text(node, path);
  if (name.empty()) throw config_error(node.source, path, "'' names no file or folder");
  return name;
}

/// A value of type T that is null when there is none.
template <class T, class Read, class Write>
Value optional_value(std::optional<T>& target, Read read, Write write) {
  return {[&target, read](const Node& node, const std::string& path, Reading&) { target = read(node, path); },
          [&target, write] { return target ? write(*target) : Node::scalar(""); }};
}

Node write_integer(std::int64_t value) { return Node::scalar(std::to_string(value)); }
Node write_number(double value) { return Node::scalar(format_number(value)); }
Node write_text(const std::string& value) { return Node::scalar(value, false); }

Value list_of_texts(std::vector<std::string>& target, ReadText read) {
  return {[&target, read](const Node& node, const std::string& path, Reading& reading) {
            target = read_texts(node, path, read, reading);
          },
          [&target] {
            Node node = Node::list();
            for (const std::string& item : target) node.children.push_back(write_text(item));
            return node;
          }};
}

/// Where a key belongs that stands at `path`; empty when that is nowhere else, or in several places.
std::string home_of(const std::string& key, const std::string& path, const Reading& reading) {
  const auto home = reading.homes.find(key);
  if (home == reading.homes.end()) return {};
  std::string here;  // items of lists are all alike
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    here = join(here, part.find_first_not_of("0123456789") == std::string::npos ? "0" : part);
    begin = end + 1;
  }
  return here == home->second ? std::string() : home->second;
}

void complain_of_unknown_key(const Node& node, std::size_t i, const std::string& path, const Table& table,
                             Reading& reading) {
  const std::string& key = node.keys[i];
  std::vector<std::string_view> names;
  for (const Row& row : table) {
    if (row.value.write) names.push_back(row.key);
  }
  const std::string_view nearest = nearest_spelling(key, names);
  const std::string home = home_of(key, join(path, key), reading);
  std::string hint;
  if (!home.empty()) {
    hint = fmt::format(" here, it belongs to {}", home);
    reading.complaints.excuse(home);
    for (std::size_t end = home.rfind('.'); end != std::string::npos; end = home.rfind('.', end - 1))
      reading.complaints.expect_missing(home.substr(0, end));
  } else if (!nearest.empty()) {
    hint = fmt::format(", did you mean '{}'?", nearest);
    reading.complaints.excuse(join(path, nearest));
  }
  reading.complaints.add(config_error(node.key_sources[i], join(path, key), "is not a known key" + hint,
                                      home.empty() ? list_of(names) : std::string()));
}

}  // namespace

std::string join(const std::string& path, std::string_view key) {
  return path.empty() ? std::string(key) : fmt::format("{}.{}", path, key);
}

std::string list_of(std::span<const std::string_view> words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

std::int64_t read_integer(const Node& node, const std::string& path, IntegerRange range) {
  std::int64_t value = 0;
  const bool scalar = node.kind == Node::Kind::scalar && node.plain;
  const NumberProblem problem = scalar ? parse_integer(node.text, value) : NumberProblem::not_a_number;
  if (problem == NumberProblem::not_a_number) wrong_type(node, path, range_text(range));
  if (problem == NumberProblem::out_of_range || value < range.least || value > range.most) {
    throw config_error(node.source, path, in_quotes(node.text) + " is out of range", range_text(range));
  }
  return value;
}

double read_number(const Node& node, const std::string& path, NumberRange range) {
  double value = 0;
  const bool scalar = node.kind == Node::Kind::scalar && node.plain;
  const NumberProblem problem = scalar ? parse_number(node.text, value) : NumberProblem::not_a_number;
  if (problem == NumberProblem::not_a_number) wrong_type(node, path, range_text(range));
  if (problem == NumberProblem::out_of_range)
    throw config_error(node.source, path, in_quotes(node.text) + " is out of range",
                       double_range_text(range));
  const bool too_small = range.with_least ? value < range.least : value <= range.least;
  const bool too_large = range.with_most ? value > range.most : value >= range.most;
  if (too_small || too_large) {
    throw config_error(node.source, path, in_quotes(node.text) + " is out of range", range_text(range));
  }
  return value;
}

std::string read_text(const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::scalar || node.is_null()) wrong_type(node, path, "a string");
  double number = 0;
  const bool is_number = node.plain && parse_number(node.text, number) != NumberProblem::not_a_number;
  if (is_number || (node.plain && parse_boolean(node.text)))
    throw config_error(node.source, path, node.describe() + " where a string is expected",
                       "a string, in quotes where it could be something else: " + in_quotes(node.text));
  if (node.text.find('\0') != std::string::npos)
    throw config_error(node.source, path, in_quotes(node.text) + " holds a zero byte",
                       "a string without one");
  return node.text;
}

void require_list(const Node& node, const std::string& path) {
  if (node.kind != Node::Kind::list) wrong_type(node, path, "a list");
}

Value integer_value(std::function<void(std::int64_t)> set, std::function<std::optional<std::int64_t>()> get,
                    IntegerRange range) {
  return {[set = std::move(set), range](const Node& node, const std::string& path, Reading&) {
            set(read_integer(node, path, range));
          },
          [get = std::move(get)] {
            const std::optional<std::int64_t> value = get();
            return value ? write_integer(*value) : Node::scalar("");
          }};
}

Value integer_or_auto(std::optional<std::int64_t>& target, IntegerRange range) {
  return {[&target, range](const Node& node, const std::string& path, Reading&) {
            if (node.kind == Node::Kind::scalar && node.text == "auto") {
              target.reset();
              return;
            }
            std::int64_t value = 0;
            const bool scalar = node.kind == Node::Kind::scalar && node.plain;
            if (!scalar || parse_integer(node.text, value) == NumberProblem::not_a_number) {
              wrong_type(node, path, "auto or " + range_text(range));
            }
            target = read_integer(node, path, range);
          },
          [&target] { return target ? write_integer(*target) : Node::scalar("auto"); }};
}

Value number(double& target, NumberRange range) {
  return {[&target, range](const Node& node, const std::string& path, Reading&) {
            target = read_number(node, path, range);
          },
          [&target] { return write_number(target); }};
}

Value optional_number(std::optional<double>& target, NumberRange range) {
  return optional_value(
      target, [range](const Node& node, const std::string& path) { return read_number(node, path, range); },
      write_number);
}

Value boolean(bool& target) {
  return {
      [&target](const Node& node, const std::string& path, Reading&) { target = read_boolean(node, path); },
      [&target] { return Node::scalar(target ? "true" : "false"); }};
}

Value text(std::string& target) {
  return {[&target](const Node& node, const std::string& path, Reading&) { target = read_text(node, path); },
          [&target] { return write_text(target); }};
}

Value texts(std::vector<std::string>& target) { return list_of_texts(target, read_text); }
Value paths(std::vector<std::string>& target) { return list_of_texts(target, read_path); }

Value path(std::string& target) {
  return {[&target](const Node& node, const std::string& key, Reading&) { target = read_path(node, key); },
          [&target] { return write_text(target); }};
}

Value optional_path(std::optional<std::string>& target) {
  return optional_value(target, read_path, write_text);
}

Value numbers(std::vector<double>& target, NumberRange range) {
  return {[&target, range](const Node& node, const std::string& path, Reading& reading) {
            if (node.kind != Node::Kind::list) wrong_type(node, path, "a list of numbers");
            target.clear();
            for (std::size_t i = 0; i < node.children.size(); ++i) {
              const std::string item_path = join(path, std::to_string(i));
              reading.complaints.collect(
                  item_path, [&] { target.push_back(read_number(node.children[i], item_path, range)); });
            }
          },
          [&target] {
            Node node = Node::list();
            for (const double item : target) node.children.push_back(write_number(item));
            return node;
          }};
}

Value block(Table table) {
  return {[table](const Node& node, const std::string& path, Reading& reading) {
            read_table(node, path, table, reading);
          },
          [table] { return write_table(table); }, paths_inside(table)};
}

Value choice_of_words(std::function<int()> get, std::function<void(int)> set, std::vector<Word> words) {
  return {[set, words](const Node& node, const std::string& path, Reading&) {
            std::vector<std::string_view> names;
            for (const Word& word : words) {
              if (node.kind == Node::Kind::scalar && node.text == word.name) return set(word.number);
              names.push_back(word.name);
            }
            if (node.kind != Node::Kind::scalar) wrong_type(node, path, list_of(names));
            const std::string_view nearest = nearest_spelling(node.text, names);
            const std::string hint = nearest.empty() ? "" : fmt::format(", did you mean '{}'?", nearest);
            throw config_error(node.source, path, in_quotes(node.text) + " is not known" + hint,
                               list_of(names));
          },
          [get, words] {
            const auto word =
                std::find_if(words.begin(), words.end(), [&](const Word& w) { return w.number == get(); });
            return Node::scalar(word == words.end() ? "" : std::string(word->name));
          }};
}

Value without_effect(Kind kind) {
  return {[kind](const Node& node, const std::string& path, Reading& reading) {
            switch (kind) {
              case Kind::boolean:
                (void)read_boolean(node, path);
                break;
              case Kind::integer:
                (void)read_integer(node, path, {});
                break;
              case Kind::number:
                (void)read_number(node, path, {std::numeric_limits<double>::lowest()});
                break;
              case Kind::text:
                (void)read_text(node, path);
                break;
              case Kind::texts:
                (void)read_texts(node, path, read_text, reading);
                break;
            }
          },
          nullptr};
}

Value tool_not_in_weft() {
  return {[](const Node&, const std::string& path, Reading& reading) {
            reading.notices.push_back(path + " is ignored: weft has no such tool");
          },
          nullptr};
}

Value not_supported(std::string_view feature, std::vector<std::string_view> allowed) {
  return {[feature, allowed](const Node& node, const std::string& path, Reading&) {
            const auto truth = node.kind == Node::Kind::scalar ? parse_boolean(node.text) : std::nullopt;
            const std::string value = truth ? (*truth ? "true" : "false") : node.text;
            if (std::find(allowed.begin(), allowed.end(), value) != allowed.end()) return;
            std::vector<std::string_view> words = allowed;
            if (words.empty()) words.push_back("null");
            throw config_error(node.source, path,
                               fmt::format("{} is not supported: weft has no {}", node.describe(), feature),
                               list_of(words));
          },
          nullptr};
}

Value moved(std::string_view today, std::string_view how, Value value) {
  return {[today, how, read = std::move(value.read)](const Node& node, const std::string& path,
                                                     Reading& reading) {
            reading.complaints.excuse(std::string(today));
            reading.complaints.add(config_error(node.source, path, fmt::format("has become {}", today), how));
            read(node, path, reading);
          },
          nullptr};
}

std::vector<std::string> paths_inside(const Table& table) {
  std::vector<std::string> paths;
  for (const Row& row : table) {
    paths.emplace_back(row.key);
    for (const std::string& path : row.value.inside) paths.push_back(join(std::string(row.key), path));
  }
  return paths;
}

void read_table(const Node& node, const std::string& path, const Table& table, Reading& reading) {
  if (node.kind != Node::Kind::block) {
    if (!node.is_null()) wrong_type(node, path, "a block of keys");
  }
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const bool known =
        std::any_of(table.begin(), table.end(), [&](const Row& row) { return row.key == node.keys[i]; });
    if (!known) complain_of_unknown_key(node, i, path, table, reading);
  }
  for (const Row& row : table) {
    const Node* value = node.find(row.key);
    const std::string value_path = join(path, row.key);
    if (value != nullptr && !value->is_null()) {
      reading.sources.add(value_path, value->source);
      reading.complaints.collect(value_path, [&] { row.value.read(*value, value_path, reading); });
      continue;
    }
    const bool needed =
        row.need == Need::always || (row.need == Need::training && reading.use == ConfigUse::training);
    if (!needed || reading.complaints.is_excused(value_path)) continue;
    reading.complaints.add(
        config_error(value == nullptr ? node.source : value->source, value_path, "is missing"));
    reading.complaints.give_up(value_path);
  }
}

Node write_table(const Table& table) {
  Node node = Node::block();
  for (const Row& row : table) {
    if (row.value.write) node.add(std::string(row.key), row.value.write());
  }
  return node;
}

}  // namespace weft::schema
