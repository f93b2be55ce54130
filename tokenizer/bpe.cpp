#include "weft/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <queue>
#include <utility>

#include "weft/base/text/utf8.h"

namespace weft {
namespace {

// Below this number of symbols looking through all pairs is faster than a heap.
constexpr std::size_t few_symbols = 48;

std::uint64_t pair_of(std::uint32_t left, std::uint32_t right) noexcept {
  return (std::uint64_t{left} << 32) | right;
}

std::uint64_t mixed(std::uint64_t x) noexcept {
  x *= 0x9E3779B97F4A7C15u;
  return x ^ (x >> 32);
}

}  // namespace

BpeModel::BpeModel(Settings settings, std::unordered_map<std::string, std::uint32_t> tokens,
                   const std::vector<Merge>& merges)
    : settings_(settings) {
  tokens_.reserve(tokens.size());
  for (auto& [text, id] : tokens) tokens_.emplace(text, id);
  for (std::size_t byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(static_cast<unsigned char>(byte));
    single_bytes_[byte] = id_of(std::string_view(&c, 1)).value_or(no_token);
  }
  slots_.resize(std::bit_ceil(2 * merges.size() + 2));
  mask_ = slots_.size() - 1;
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const std::uint64_t pair = pair_of(merges[rank].left, merges[rank].right);
    std::uint64_t at = mixed(pair) & mask_;
    while (slots_[at].pair != UINT64_MAX && slots_[at].pair != pair) at = (at + 1) & mask_;
    slots_[at] = {pair, {static_cast<std::uint32_t>(rank), merges[rank].merged}};
  }
}

std::optional<std::uint32_t> BpeModel::id_of(std::string_view token) const {
  const auto found = tokens_.find(token);
  return found == tokens_.end() ? std::nullopt : std::optional(found->second);
}

BpeModel::Rule BpeModel::rule_of(std::uint32_t left, std::uint32_t right) const noexcept {
  const std::uint64_t pair = pair_of(left, right);
  for (std::uint64_t at = mixed(pair) & mask_;; at = (at + 1) & mask_) {
    if (slots_[at].pair == pair) return slots_[at].rule;
    if (slots_[at].pair == UINT64_MAX) return {};
  }
}

void BpeModel::begin_symbols(std::string_view word, std::vector<std::uint32_t>& symbols) const {
  bool unknown_waits = false;  // it is fused with the next one, or written before the next token
  const auto write_unknown = [&] {
    if (std::exchange(unknown_waits, false)) symbols.push_back(settings_.unknown);
  };
  while (!word.empty()) {
    const std::size_t length = settings_.symbols_are_bytes ? 1 : first_character(word).length;
    const std::string_view symbol = word.substr(0, length);
    word.remove_prefix(length);
    const std::uint32_t token =
        length == 1 ? single_bytes_[static_cast<unsigned char>(symbol[0])] : id_of(symbol).value_or(no_token);
    if (token != no_token) {
      write_unknown();
      symbols.push_back(token);
      continue;
    }
    if (settings_.byte_fallback) {
      const auto byte_token = [&](char c) { return settings_.byte_tokens[static_cast<unsigned char>(c)]; };
      if (std::none_of(symbol.begin(), symbol.end(), [&](char c) { return byte_token(c) == no_token; })) {
        // An unknown character before them stays behind them, as in Hugging Face's tokenizers.
        for (const char c : symbol) symbols.push_back(byte_token(c));
        continue;
      }
    }
    if (settings_.unknown == no_token) continue;
    if (!settings_.fuse_unknown) write_unknown();
    unknown_waits = true;
  }
  write_unknown();
}

void BpeModel::encode_word(std::string_view word, std::vector<std::uint32_t>& ids) const {
  if (word.empty()) return;
  if (settings_.ignore_merges)
    if (const auto whole = id_of(word)) return ids.push_back(*whole);
  std::vector<std::uint32_t> symbols;
  begin_symbols(word, symbols);
  if (symbols.size() <= few_symbols)
    merge_few(symbols);
  else
    merge_many(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void BpeModel::merge_few(std::vector<std::uint32_t>& symbols) const {
  if (symbols.size() < 2) return;
  std::array<Rule, few_symbols> rules;  // [i]: of symbols i and i + 1
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) rules[i] = rule_of(symbols[i], symbols[i + 1]);
  for (;;) {
    const std::size_t pairs = symbols.size() - 1;
    std::size_t best = 0;
    for (std::size_t i = 1; i < pairs; ++i)
      if (rules[i].rank < rules[best].rank) best = i;
    if (pairs == 0 || rules[best].rank == no_token) return;
    symbols[best] = rules[best].merged;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    for (std::size_t i = best + 1; i + 1 < pairs; ++i) rules[i] = rules[i + 1];
    if (best > 0) rules[best - 1] = rule_of(symbols[best - 1], symbols[best]);
    if (best + 1 < symbols.size()) rules[best] = rule_of(symbols[best], symbols[best + 1]);
  }
}

void BpeModel::merge_many(std::vector<std::uint32_t>& symbols) const {
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t at;
    std::uint32_t merged;
    bool operator>(const Candidate& other) const noexcept {
      return rank != other.rank ? rank > other.rank : at > other.at;
    }
  };
  const auto n = static_cast<std::uint32_t>(symbols.size());
  std::vector<std::uint32_t> next(n), previous(n);
  std::vector<Candidate> first;
  first.reserve(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    next[i] = i + 1;
    previous[i] = i - 1;
    if (i + 1 == n) break;
    const Rule rule = rule_of(symbols[i], symbols[i + 1]);
    if (rule.rank != no_token) first.push_back({rule.rank, i, rule.merged});
  }
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates(std::greater<>(),
                                                                                    std::move(first));
  const auto offer = [&](std::uint32_t at) {
    const Rule rule = rule_of(symbols[at], symbols[next[at]]);
    if (rule.rank != no_token) candidates.push({rule.rank, at, rule.merged});
  };
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    const std::uint32_t at = best.at;
    // Gone, last, or no longer the pair that it was.
    if (symbols[at] == no_token || next[at] == n ||
        rule_of(symbols[at], symbols[next[at]]).merged != best.merged)
      continue;
    const std::uint32_t gone = next[at];
    symbols[at] = best.merged;
    symbols[gone] = no_token;
    next[at] = next[gone];
    if (next[at] < n) previous[next[at]] = at;
    if (previous[at] != UINT32_MAX) offer(previous[at]);
    if (next[at] < n) offer(at);
  }
  std::erase(symbols, no_token);
}

}  // namespace weft
