#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <memory>

#include "weft/base/error.h"
#include "weft/base/text/foreign_text.h"
#include "weft/scheduling/orders/order_text.h"

namespace weft {

namespace {

enum class Word : std::uint8_t {
  f,
  i,
  w,
  b,
  bw,
  send_f,
  recv_f,
  send_b,
  recv_b,
  wait_send_f,
  wait_send_b,
  unshard,
  reshard,
  reduce_grad,
  wait_reduce_grad
};

constexpr std::array<std::string_view, 15> words{
    "F",      "I",           "W",           "B",       "BW",      "SEND_F",      "RECV_F",          "SEND_B",
    "RECV_B", "WAIT_SEND_F", "WAIT_SEND_B", "UNSHARD", "RESHARD", "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};
constexpr std::uint32_t most_stages = 65535;
constexpr std::uint32_t most_microbatches = 1u << 24;
constexpr std::size_t most_bytes = 64u << 20;

bool is_op(Word word) { return word <= Word::bw; }

CommunicationKind communication_kind(Word word) {
  return static_cast<CommunicationKind>(static_cast<int>(word) - static_cast<int>(Word::send_f));
}

/// One action of the file; a fused cell holds two.
struct Action {
  std::uint32_t row = 0;     // line, from 1
  std::uint32_t column = 0;  // cell, from 1
  std::uint32_t microbatch = 0;
  std::uint16_t stage = 0;
  Word word = Word::f;
  bool fused_with_next = false;
};

std::string_view trimmed(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

class Reader {
 public:
  Reader(std::string_view text, std::string_view name) : text_(text), name_(name) {}
  OrderText read();

 private:
  void read_line(std::string_view line, std::uint32_t row);
  void read_cell(std::string_view cell, Action at);
  void read_action(std::string_view part, std::string_view cell, Action at, bool fused);
  std::uint32_t number(std::string_view digits, std::string_view what, std::uint32_t limit,
                       std::string_view cell, const Action& at) const;
  [[nodiscard]] bool spelled_the_old_way() const;
  [[nodiscard]] OpKind kind_of(const Action& action, bool old_way) const;
  [[noreturn]] void fail(const Action& at, std::string_view cell, const std::string& why) const {
    throw ScheduleError(
        fmt::format("{}: row {}, column {} '{}': {}", name_, at.row, at.column, printable(cell, 40), why));
  }
  [[noreturn]] void fail(const Action& at, const std::string& why) const {
    fail(at, fmt::format("{}{}{}", at.stage, words[static_cast<std::size_t>(at.word)], at.microbatch), why);
  }

  std::string_view text_;
  std::string_view name_;
  std::vector<std::vector<Action>> ranks_;
};

std::uint32_t Reader::number(std::string_view digits, std::string_view what, std::uint32_t limit,
                             std::string_view cell, const Action& at) const {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value >= limit)
    fail(at, cell, fmt::format("the {} is out of range; allowed: 0 to {}", what, limit - 1));
  return static_cast<std::uint32_t>(value);
}

void Reader::read_action(std::string_view part, std::string_view cell, Action at, bool fused) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto letters = std::find_if_not(part.begin(), part.end(), digit);
  const auto rest = std::find_if(letters, part.end(), digit);
  const auto size = [&](auto from, auto to) { return static_cast<std::size_t>(to - from); };
  const std::string_view stage = part.substr(0, size(part.begin(), letters));
  const std::string_view word = part.substr(stage.size(), size(letters, rest));
  const std::string_view microbatch = part.substr(stage.size() + word.size());
  const auto known = std::find(words.begin(), words.end(), word);
  if (stage.empty() || known == words.end() || !std::all_of(microbatch.begin(), microbatch.end(), digit))
    fail(at, cell,
         fmt::format("not an op; allowed: a stage, F, B, I or W, and a micro-batch, for example 0F3, "
                     "or what PyTorch writes beside them ({})",
                     fmt::join(words.begin() + static_cast<int>(Word::send_f), words.end(), ", ")));
  at.word = static_cast<Word>(known - words.begin());
  at.stage = static_cast<std::uint16_t>(number(stage, "stage", most_stages, cell, at));
  const bool per_microbatch =
      is_op(at.word) || is_message(communication_kind(at.word)) || is_send_wait(communication_kind(at.word));
  if (per_microbatch && microbatch.empty()) fail(at, cell, "the micro-batch is missing");
  if (!microbatch.empty()) at.microbatch = number(microbatch, "micro-batch", most_microbatches, cell, at);
  if (fused && !is_op(at.word)) fail(at, cell, "a fused cell holds one F and one B or I");
  ranks_.back().push_back(at);
}

void Reader::read_cell(std::string_view cell, Action at) {
  if (cell.size() >= 2 && cell.front() == '"' && cell.back() == '"')
    cell = trimmed(cell.substr(1, cell.size() - 2));
  if (cell.empty()) return;
  if (cell.front() != '(') return read_action(cell, cell, at, false);
  const std::size_t middle = cell.find(';');
  const std::size_t end = cell.find(')');
  if (middle == std::string_view::npos || end == std::string_view::npos || middle > end ||
      trimmed(cell.substr(end + 1)) != "OVERLAP_F_B")
    fail(at, cell, "not a fused op; allowed: for example (0F7;7B3)OVERLAP_F_B");
  at.fused_with_next = true;
  read_action(trimmed(cell.substr(1, middle - 1)), cell, at, true);
  at.fused_with_next = false;
  read_action(trimmed(cell.substr(middle + 1, end - middle - 1)), cell, at, true);
  const Word first = ranks_.back().end()[-2].word;
  const Word second = ranks_.back().back().word;
  if ((first == Word::f) == (second == Word::f) || first == Word::w || second == Word::w)
    fail(at, cell, "a fused cell holds one F and one B or I");
}

void Reader::read_line(std::string_view line, std::uint32_t row) {
  line = line.substr(0, line.find('#'));
  if (trimmed(line).empty()) return;
  ranks_.emplace_back();
  Action at;
  at.row = row;
  for (std::uint32_t column = 1;; ++column) {
    const std::size_t comma = line.find(',');
    at.column = column;
    read_cell(trimmed(line.substr(0, comma)), at);
    if (comma == std::string_view::npos) break;
    line.remove_prefix(comma + 1);
  }
  if (ranks_.back().empty())
    throw ScheduleError(fmt::format("{}: row {} (rank {}) holds no op", name_, row, ranks_.size() - 1));
}

// The old spelling has B, W, BW where the new one has I, W, B.
bool Reader::spelled_the_old_way() const {
  std::array<const Action*, words.size()> first{};
  for (const auto& rank : ranks_)
    for (const Action& action : rank)
      if (auto& slot = first[static_cast<std::size_t>(action.word)]; slot == nullptr) slot = &action;
  const auto seen = [&](Word word) { return first[static_cast<std::size_t>(word)]; };
  if (seen(Word::bw) != nullptr && seen(Word::i) != nullptr)
    fail(*seen(Word::i), fmt::format("the file mixes I with the old spelling BW (row {}, column {})",
                                     seen(Word::bw)->row, seen(Word::bw)->column));
  return seen(Word::bw) != nullptr || (seen(Word::w) != nullptr && seen(Word::i) == nullptr);
}

OpKind Reader::kind_of(const Action& action, bool old_way) const {
  switch (action.word) {
    case Word::f:
      return OpKind::forward;
    case Word::i:
      return OpKind::backward_input;
    case Word::w:
      return OpKind::backward_weight;
    case Word::b:
      return old_way ? OpKind::backward_input : OpKind::backward;
    default:
      return OpKind::backward;
  }
}

OrderText Reader::read() {
  std::string_view rest = text_;
  if (rest.substr(0, 3) == "\xef\xbb\xbf") rest.remove_prefix(3);  // byte order mark
  for (std::uint32_t row = 1; !rest.empty(); ++row) {
    const std::size_t end = rest.find('\n');
    read_line(rest.substr(0, end), row);
    if (ranks_.size() > most_stages)
      throw ScheduleError(fmt::format("{}: row {}: more than {} ranks", name_, row, most_stages));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  if (ranks_.empty()) throw ScheduleError(fmt::format("{}: holds no op", name_));
  const bool old_way = spelled_the_old_way();
  OrderText result;
  result.name = name_;
  for (const auto& rank : ranks_) {
    result.rows.push_back(rank.front().row);
    auto& ops = result.order.emplace_back();
    auto& columns = result.columns.emplace_back();
    auto& communication = result.communication.emplace_back();
    for (const Action& action : rank) {
      if (!is_op(action.word)) {
        communication.push_back({static_cast<std::uint32_t>(ops.size()), action.column, action.microbatch,
                                 action.stage, communication_kind(action.word)});
        continue;
      }
      ops.push_back(Op{action.microbatch, action.stage, kind_of(action, old_way), action.fused_with_next});
      columns.push_back(action.column);
    }
    if (ops.empty())
      throw ScheduleError(fmt::format("{}: row {} (rank {}) holds no F, B, I or W", name_, rank.front().row,
                                      result.order.size() - 1));
  }
  return result;
}

}  // namespace

OrderText read_order(std::string_view text, std::string_view name) { return Reader(text, name).read(); }

OrderText read_order_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  std::string text;
  // In pieces: a pipe does not know its size.
  std::array<char, 1 << 16> piece;
  std::size_t size = 1;
  while (file && size > 0 && text.size() <= most_bytes) {
    size = std::fread(piece.data(), 1, piece.size(), file.get());
    text.append(piece.data(), size);
  }
  if (!file || std::ferror(file.get()) != 0)
    throw ScheduleError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  if (text.size() > most_bytes)
    throw ScheduleError(fmt::format("{}: more than {} bytes are too many", path, most_bytes));
  return read_order(text, path);
}

}  // namespace weft
