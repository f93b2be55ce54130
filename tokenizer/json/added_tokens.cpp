#include "weft/tokenizer/json/added_tokens.h"

#include <algorithm>

#include "weft/base/text/utf8.h"
#include "weft/tokenizer/unicode/unicode_16.h"

namespace weft {
namespace {

unsigned char first_byte(const AddedToken& token) {
  return static_cast<unsigned char>(token.content.front());
}

std::size_t begin_of_last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool ends_with_word(std::string_view text) {
  if (text.empty()) return false;
  const auto last = first_character(text.substr(begin_of_last_character(text)));
  return unicode::contains(unicode::word_characters(), last.code_point);
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && unicode::contains(unicode::word_characters(), first_character(text).code_point);
}

std::size_t without_blanks_at_end(std::string_view text) {
  while (!text.empty()) {
    const std::size_t last = begin_of_last_character(text);
    if (!unicode::contains(unicode::white_space(), first_character(text.substr(last)).code_point)) break;
    text = text.substr(0, last);
  }
  return text.size();
}

std::size_t blanks_at_start(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    const auto character = first_character(text.substr(at));
    if (!unicode::contains(unicode::white_space(), character.code_point)) break;
    at += character.length;
  }
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::stable_sort(tokens_.begin(), tokens_.end(), [](const AddedToken& a, const AddedToken& b) {
    if (first_byte(a) != first_byte(b)) return first_byte(a) < first_byte(b);
    return a.content.size() > b.content.size();
  });
  for (std::uint32_t i = 0; i < tokens_.size(); ++i) {
    auto& [from, to] = starting_[first_byte(tokens_[i])];
    if (from == to) from = i;
    to = i + 1;
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text) const noexcept {
  const auto [from, to] = starting_[static_cast<unsigned char>(text.front())];
  for (std::uint32_t i = from; i < to; ++i)
    if (text.substr(0, tokens_[i].content.size()) == tokens_[i].content) return &tokens_[i];
  return nullptr;
}

void AddedTokens::split(std::string_view text, std::vector<Part>& parts) const {
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.size();) {
    const AddedToken* token = longest_at(text.substr(at));
    if (token == nullptr) {
      ++at;
      continue;
    }
    std::size_t begin = at;
    std::size_t end = at + token->content.size();
    at = end;
    if (token->single_word && (ends_with_word(text.substr(0, begin)) || starts_with_word(text.substr(end))))
      continue;
    if (token->lstrip) begin = std::max(without_blanks_at_end(text.substr(0, begin)), done);
    if (token->rstrip) end += blanks_at_start(text.substr(end));
    if (done < begin) parts.push_back({text.substr(done, begin - done), nullptr});
    parts.push_back({text.substr(begin, end - begin), token});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done), nullptr});
}

}  // namespace weft
