#include "weft/training/config/node.h"

#include <algorithm>
#include <utility>

#include "weft/training/config/scalar.h"

namespace weft {

bool Node::is_null() const { return kind == Kind::scalar && plain && is_null_text(text); }

const Node* Node::find(std::string_view key) const {
  const auto place = std::find(keys.begin(), keys.end(), key);
  return place == keys.end() ? nullptr : &children[static_cast<std::size_t>(place - keys.begin())];
}

Node* Node::find(std::string_view key) { return const_cast<Node*>(std::as_const(*this).find(key)); }

Node& Node::add(std::string key, Node value) {
  keys.push_back(std::move(key));
  key_sources.push_back(value.source);
  children.push_back(std::move(value));
  return children.back();
}

void Node::erase(std::string_view key) {
  const auto place = std::find(keys.begin(), keys.end(), key) - keys.begin();
  if (place == static_cast<std::ptrdiff_t>(keys.size())) return;
  keys.erase(keys.begin() + place);
  key_sources.erase(key_sources.begin() + place);
  children.erase(children.begin() + place);
}

std::string Node::describe() const {
  if (kind == Kind::block) return "a block of keys";
  if (kind == Kind::list) return "a list";
  if (is_null()) return "nothing";
  if (!plain) return "the string " + in_quotes(text);
  double number = 0;
  if (parse_boolean(text)) return "the truth value " + text;
  if (parse_number(text, number) != NumberProblem::not_a_number) return "the number " + in_quotes(text);
  return in_quotes(text);
}

Node Node::scalar(std::string text, bool plain) {
  Node node;
  node.text = std::move(text);
  node.plain = plain;
  return node;
}

Node Node::block() {
  Node node;
  node.kind = Kind::block;
  return node;
}

Node Node::list() {
  Node node;
  node.kind = Kind::list;
  return node;
}

}  // namespace weft
