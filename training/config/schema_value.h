#pragma once
// The building blocks of the schema: how one kind of value is read from a Node, checked, and written back.
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/training/config/complaints.h"
#include "weft/training/config/config_use.h"
#include "weft/training/config/node.h"
#include "weft/training/config/source.h"

namespace weft::schema {

/// What a reading leaves behind besides the values.
struct Reading {
  ConfigSources& sources;
  std::vector<std::string>& notices;  ///< what was accepted but is ignored, one line each
  Complaints& complaints;
  ConfigUse use = ConfigUse::training;
  /// Where every key that stands in one place only belongs: name -> whole path.
  std::map<std::string, std::string, std::less<>> homes = {};
};

struct Row;

/// One value of the configuration. `read` gets a node that is not null and throws ConfigError for a value
/// that is wrong as a whole; what is wrong inside it goes to the reading's complaints. `write` is empty for
/// keys that are accepted but not kept.
struct Value {
  std::function<void(const Node& node, const std::string& path, Reading& reading)> read;
  std::function<Node()> write;
  std::vector<std::string> inside = {};  ///< of a block: the paths of all keys in it
};

/// A key that is missing or null keeps its default, unless it is required: by every use of the configuration,
/// or by a training alone.
enum class Need { none, training, always };
constexpr Need required = Need::always;
constexpr Need for_training = Need::training;

/// One key of a block.
struct Row {
  std::string_view key;
  Value value;
  Need need = Need::none;
};

using Table = std::vector<Row>;

struct IntegerRange {
  std::int64_t least = std::numeric_limits<std::int64_t>::min();
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// Numbers from `least` to `most`; each end belongs to the range or not.
struct NumberRange {
  double least = 0;
  bool with_least = true;
  double most = std::numeric_limits<double>::infinity();
  bool with_most = true;
};

/// `set` gets a number of the range.
Value integer_value(std::function<void(std::int64_t)> set, std::function<std::optional<std::int64_t>()> get,
                    IntegerRange range);

/// The range must fit the type.
template <class Number>
Value integer(Number& target, IntegerRange range) {
  return integer_value([&target](std::int64_t value) { target = static_cast<Number>(value); },
                       [&target] { return std::optional(static_cast<std::int64_t>(target)); }, range);
}
template <class Number>
Value optional_integer(std::optional<Number>& target, IntegerRange range) {
  return integer_value(
      [&target](std::int64_t value) { target = static_cast<Number>(value); },
      [&target] { return target ? std::optional(static_cast<std::int64_t>(*target)) : std::nullopt; }, range);
}
/// `auto` stands for none.
Value integer_or_auto(std::optional<std::int64_t>& target, IntegerRange range);
Value number(double& target, NumberRange range);
Value optional_number(std::optional<double>& target, NumberRange range);
Value boolean(bool& target);
Value text(std::string& target);
/// A list of strings; one string alone is a list of one.
Value texts(std::vector<std::string>& target);
/// The same for names of files and folders: none is empty.
Value path(std::string& target);
Value optional_path(std::optional<std::string>& target);
Value paths(std::vector<std::string>& target);
Value numbers(std::vector<double>& target, NumberRange range);
Value block(Table table);

/// A word for a number: what choice() is made of.
struct Word {
  std::string_view name;
  int number;
};
Value choice_of_words(std::function<int()> get, std::function<void(int)> set, std::vector<Word> words);

/// One of several words, each standing for a value of an enum.
template <class Enum>
Value choice(Enum& target, std::initializer_list<std::pair<std::string_view, Enum>> words) {
  std::vector<Word> list;
  for (const auto& [name, value] : words) list.push_back({name, static_cast<int>(value)});
  return choice_of_words([&target] { return static_cast<int>(target); },
                         [&target](int number) { target = static_cast<Enum>(number); }, std::move(list));
}

/// A list of blocks, each read by `table_of(item)`.
template <class Item>
Value blocks(std::vector<Item>& target, Table (*table_of)(Item&));

/// A key of Nanotron's that has the right kind of value and no effect in weft.
enum class Kind { boolean, integer, number, text, texts };
Value without_effect(Kind kind);
/// A block for a tool that weft does not have: any content, named in a notice.
Value tool_not_in_weft();
/// A feature weft does not have: only null or one of `allowed` passes.
Value not_supported(std::string_view feature, std::vector<std::string_view> allowed = {});
/// A key of an older dialect. `today` is the path that it became, `how` how that is written; `value` reads
/// what it holds, so that this is checked as well.
Value moved(std::string_view today, std::string_view how, Value value);

/// Reads a block by its table: unknown keys first, then every row. What is wrong with a key is complained of,
/// the rest is read. `path` is empty for the whole file. Throws ConfigError when `node` is no block.
void read_table(const Node& node, const std::string& path, const Table& table, Reading& reading);
[[nodiscard]] Node write_table(const Table& table);
/// The paths of all keys of a table, below it.
[[nodiscard]] std::vector<std::string> paths_inside(const Table& table);

/// `path.key`, or `key` at the top.
[[nodiscard]] std::string join(const std::string& path, std::string_view key);
/// The words with commas between them.
[[nodiscard]] std::string list_of(std::span<const std::string_view> words);

/// Parts of the values above, for the few that schema.cpp composes itself. All throw ConfigError.
[[nodiscard]] std::int64_t read_integer(const Node& node, const std::string& path, IntegerRange range);
[[nodiscard]] double read_number(const Node& node, const std::string& path, NumberRange range);
[[nodiscard]] std::string read_text(const Node& node, const std::string& path);
void require_list(const Node& node, const std::string& path);

template <class Item>
std::vector<std::string> paths_inside_item(Table (*table_of)(Item&)) {
  Item item;
  std::vector<std::string> paths = paths_inside(table_of(item));
  for (std::string& path : paths) path.insert(0, "0.");
  return paths;
}

template <class Item>
Value blocks(std::vector<Item>& target, Table (*table_of)(Item&)) {
  return {[&target, table_of](const Node& node, const std::string& path, Reading& reading) {
            require_list(node, path);
            target.assign(node.children.size(), Item{});
            for (std::size_t i = 0; i < target.size(); ++i) {
              const std::string item_path = join(path, std::to_string(i));
              reading.sources.add(item_path, node.children[i].source);
              reading.complaints.collect(
                  item_path, [&] { read_table(node.children[i], item_path, table_of(target[i]), reading); });
            }
          },
          [&target, table_of] {
            Node node = Node::list();
            for (Item& item : target) node.children.push_back(write_table(table_of(item)));
            return node;
          },
          paths_inside_item(table_of)};
}

}  // namespace weft::schema
