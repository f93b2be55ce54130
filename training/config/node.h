#pragma once
// A YAML value as weft reads it: a small tree in which every part knows its place.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "weft/training/config/source.h"

namespace weft {

/// A scalar, a block (keys and values in order, no key twice) or a list.
struct Node {
  enum class Kind { scalar, block, list };

  Kind kind = Kind::scalar;
  std::string text;   ///< of a scalar, without quotes
  bool plain = true;  ///< a scalar written without quotes: it may be a number, a truth value or null
  Source source;
  std::vector<std::string> keys;    ///< of a block: keys[i] names children[i]
  std::vector<Source> key_sources;  ///< of a block
  std::vector<Node> children;

  [[nodiscard]] bool is_null() const;
  /// The value of `key` in a block, or null when there is none.
  [[nodiscard]] const Node* find(std::string_view key) const;
  [[nodiscard]] Node* find(std::string_view key);
  /// Appends a key to a block and returns its value.
  Node& add(std::string key, Node value);
  void erase(std::string_view key);

  /// `a number`, `a block of keys`, ...: for messages.
  [[nodiscard]] std::string describe() const;

  static Node scalar(std::string text, bool plain = true);
  static Node block();
  static Node list();
};

}  // namespace weft
