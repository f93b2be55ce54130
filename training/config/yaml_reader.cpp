#include "weft/training/config/yaml_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <sstream>
#include <unordered_map>
#include <utility>

#include "weft/training/config/binary_scalar.h"

namespace weft {
namespace {

constexpr std::size_t largest_file = 1 << 20;
constexpr std::size_t deepest = 64;
constexpr std::size_t most_values = 100'000;

std::size_t count_values(const Node& node) {
  std::size_t count = 1;
  for (const Node& child : node.children) count += count_values(child);
  return count;
}

/// Builds the tree from yaml-cpp's events.
class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const Source& start, Complaints& complaints) : start_(start), complaints_(complaints) {
    root_.source = start;
  }

  Node take() { return std::move(root_); }

  [[nodiscard]] Source place(const YAML::Mark& mark) const {
    Source source = start_;
    if (mark.is_null()) return source;
    const auto column = static_cast<std::size_t>(mark.column);
    source.line += static_cast<std::size_t>(mark.line);
    source.column = mark.line == 0 ? source.column + column : column + 1;
    return source;
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ > 1)
      throw config_error(place(mark), "", "a second YAML document", "one document per file");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    finish(anchor, located(Node::scalar(""), mark));
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (tag == binary_tag) return finish(anchor, located(Node::scalar(decoded(mark, value), false), mark));
    if (tag != "?" && tag != "!") refuse_tag(mark, tag);
    finish(anchor, located(Node::scalar(value, tag == "?"), mark));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto known = anchored_.find(anchor);
    if (known == anchored_.end()) throw config_error(place(mark), path(), "an alias that contains itself");
    count(mark, known->second.values);
    finish(YAML::NullAnchor, known->second.node);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::list(), mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::block(), mark, tag, anchor);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Open {
    Node node;
    YAML::anchor_t anchor;
    bool has_key = false;
    bool merges = false;  ///< the key is `<<`
    std::string key;
    Source key_source;
    std::unordered_map<std::string, std::size_t> places;  ///< of the keys in the node
    std::vector<Node> merged;                             ///< blocks to take keys from, the strongest first
  };
  struct Anchored {
    Node node;
    std::size_t values;
  };

  Node located(Node node, const YAML::Mark& mark) {
    count(mark, 1);
    node.source = place(mark);
    return node;
  }

  void count(const YAML::Mark& mark, std::size_t more) {
    values_ += more;
    if (values_ > most_values) {
      throw config_error(place(mark), "",
                         fmt::format("more than {} values, counting what aliases repeat", most_values));
    }
  }

  [[noreturn]] void refuse_tag(const YAML::Mark& mark, const std::string& tag) const {
    throw config_error(place(mark), path(), "the tag " + in_quotes(tag) + " is not read",
                       "values without tags, !!binary");
  }

  [[nodiscard]] std::string decoded(const YAML::Mark& mark, const std::string& value) const {
    const std::optional<std::string> bytes = from_base64(value);
    if (!bytes)
      throw config_error(place(mark), path(), in_quotes(value) + " is not base64", "!!binary, then base64");
    return *bytes;
  }

  void open(Node node, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    if (tag != "?" && tag != "!") refuse_tag(mark, tag);
    if (expects_key())
      throw config_error(place(mark), path(),
                         "a key that is " + node.describe() + ", or a bracket that is not closed",
                         "plain keys");
    if (open_.size() == deepest) {
      throw config_error(place(mark), "", fmt::format("nested deeper than {} levels", deepest));
    }
    open_.push_back({located(std::move(node), mark), anchor, false, false, {}, {}, {}, {}});
  }

  void close() {
    Open done = std::move(open_.back());
    open_.pop_back();
    take_merged(done);
    finish(done.anchor, std::move(done.node));
  }

  /// `node` is complete: it becomes the next key, the value of the last key, the next item or the document.
  void finish(YAML::anchor_t anchor, Node node) {
    if (anchor != YAML::NullAnchor) {
      const std::size_t values = count_values(node);
      values_ += values;  // the copy kept here counts as well
      anchored_.insert_or_assign(anchor, Anchored{node, values});
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Node::Kind::list) {
      parent.node.children.push_back(std::move(node));
    } else if (!parent.has_key) {
      take_key(parent, std::move(node));
    } else if (parent.merges) {
      merge(parent, std::move(node));
      parent.has_key = false;
    } else {
      put(parent, std::move(parent.key), parent.key_source, std::move(node));
      parent.has_key = false;
    }
  }

  void take_key(Open& parent, Node node) {
    if (node.kind != Node::Kind::scalar)
      throw config_error(node.source, path(), "a key that is " + node.describe());
    parent.merges = node.plain && node.text == "<<";
    const bool is_new = parent.merges || !parent.places.contains(node.text);
    parent.key = std::move(node.text);
    parent.key_source = node.source;
    parent.has_key = true;
    if (!is_new) complaints_.add(config_error(node.source, path(), "is given twice"));
  }

  /// A key that is there already gets the new value.
  static void put(Open& block, std::string key, const Source& key_source, Node value) {
    const auto [place, is_new] = block.places.try_emplace(key, block.node.keys.size());
    if (is_new) {
      block.node.keys.push_back(std::move(key));
      block.node.key_sources.push_back(key_source);
      block.node.children.push_back(std::move(value));
    } else {
      block.node.key_sources[place->second] = key_source;
      block.node.children[place->second] = std::move(value);
    }
  }

  /// `value` is what a `<<` of the block says: a block, or a list of blocks of which earlier ones win. A
  /// later
  /// `<<` wins over an earlier one, as in PyYAML.
  void merge(Open& block, Node value) {
    const bool is_list = value.kind == Node::Kind::list;
    std::vector<Node> from;
    if (is_list) {
      from = std::move(value.children);
    } else {
      from.push_back(std::move(value));
    }
    for (const Node& node : from)
      if (node.kind != Node::Kind::block)
        throw config_error(node.source, path(), node.describe() + " cannot be merged",
                           "a block of keys, or a list of them, mostly as *aliases");
    block.merged.insert(block.merged.begin(), std::make_move_iterator(from.begin()),
                        std::make_move_iterator(from.end()));
  }

  /// Adds the keys of the merged blocks that the block does not have itself. They keep their own places.
  static void take_merged(Open& block) {
    for (Node& from : block.merged)
      for (std::size_t i = 0; i < from.keys.size(); ++i)
        if (!block.places.contains(from.keys[i]))
          put(block, std::move(from.keys[i]), from.key_sources[i], std::move(from.children[i]));
  }

  [[nodiscard]] bool expects_key() const {
    return !open_.empty() && open_.back().node.kind == Node::Kind::block && !open_.back().has_key;
  }

  /// The whole path of the value that is being read.
  [[nodiscard]] std::string path() const {
    std::string result;
    for (const Open& part : open_) {
      if (part.node.kind == Node::Kind::block && !part.has_key) continue;
      if (!result.empty()) result += '.';
      result += part.node.kind == Node::Kind::block ? part.key : std::to_string(part.node.children.size());
    }
    return result;
  }

  Source start_;
  Complaints& complaints_;
  Node root_ = Node::scalar("");
  std::vector<Open> open_;
  std::unordered_map<YAML::anchor_t, Anchored> anchored_;
  std::size_t values_ = 0;
  std::size_t documents_ = 0;
};

/// yaml-cpp takes byte 4 for the end of the input and NUL for a sign of UTF-16, so none may reach it.
void refuse_control_characters(std::string_view text, const Source& start) {
  Source here = start;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 && c != '\t' && c != '\n' && c != '\r') {
      throw config_error(here, "", fmt::format("the control character \\x{:02x}", byte), "text");
    }
    ++here.column;
    if (c == '\n') {
      ++here.line;
      here.column = 1;
    }
  }
}

}  // namespace

Node parse_yaml(std::string_view text, const Source& start, Complaints& complaints) {
  refuse_control_characters(text, start);
  // These bytes at the start would make yaml-cpp read UTF-16, unless UTF-8's own mark stands before them.
  const bool looks_like_utf16 = text.starts_with('\xfe') || text.starts_with('\xff');
  std::istringstream stream(std::string(looks_like_utf16 ? "\xef\xbb\xbf" : "").append(text));
  TreeBuilder builder(start, complaints);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::Exception& e) {
    throw config_error(builder.place(e.mark), "", "not YAML: " + e.msg);
  }
  return builder.take();
}

Node parse_yaml(std::string_view text, const Source& start) {
  Complaints complaints;
  Node root = parse_yaml(text, start, complaints);
  complaints.throw_if_any();
  return root;
}

std::string read_config_file(const std::string& path) {
  if (path.empty()) throw config_error({}, "", "'' names no configuration file");
  const Source start{path, 1, 1, 0};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw config_error(start, "", std::string("cannot be opened: ") + std::strerror(errno));
  std::string text(largest_file + 1, '\0');
  errno = 0;
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || (file.gcount() == 0 && errno != 0)) {
    throw config_error(start, "", std::string("cannot be read: ") + std::strerror(errno));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > largest_file) throw config_error(start, "", "larger than 1 MiB");
  return text;
}

}  // namespace weft
