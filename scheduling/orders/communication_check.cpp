#include "weft/scheduling/orders/communication_check.h"

#include <fmt/core.h>

#include <set>
#include <utility>
#include <vector>

#include "weft/base/error.h"
#include "weft/scheduling/orders/standstill.h"

namespace weft {

namespace {

constexpr std::uint32_t absent = UINT32_MAX;

bool is_send(CommunicationKind kind) {
  return kind == CommunicationKind::send_f || kind == CommunicationKind::send_b;
}
bool is_forward(CommunicationKind kind) {
  return kind == CommunicationKind::send_f || kind == CommunicationKind::recv_f ||
         kind == CommunicationKind::wait_send_f;
}

/// The messages of one direction (activations or gradients) of a (stage, micro-batch), as numbers of cells in
/// the rank's list.
struct Messages {
  std::uint32_t send = absent;
  std::uint32_t receive = absent;
  std::uint32_t wait = absent;
};

class CommunicationCheck {
 public:
  CommunicationCheck(const OrderText& text, const Schedule& schedule) : text_(text), schedule_(schedule) {}

  void check() {
    for (std::uint32_t rank = 0; rank < schedule_.ranks; ++rank) find_messages(rank);
    if (messages_.empty()) return;
    for (std::uint32_t rank = 0; rank < schedule_.ranks; ++rank) check_row(rank);
    play();
    for (std::uint32_t rank = 0; rank < schedule_.ranks; ++rank)
      if (heads_[rank] < text_.communication[rank].size()) fail_standstill(rank);
  }

 private:
  void find_messages(std::uint32_t rank);
  void find_message(std::uint32_t rank, std::uint32_t number);
  void find_wait(std::uint32_t rank, std::uint32_t number);
  void check_row(std::uint32_t rank) const;
  void check_sent(std::uint32_t rank, std::uint32_t op) const;
  void check_received(std::uint32_t rank, std::uint32_t op) const;
  void play();
  void advance(std::uint32_t rank, std::vector<std::uint32_t>& runnable);
  [[noreturn]] void fail_standstill(std::uint32_t rank) const;

  [[nodiscard]] std::size_t index(bool forward, std::uint32_t stage, std::uint32_t microbatch) const {
    return (std::size_t{stage} * schedule_.microbatches + microbatch) * 2 + (forward ? 0 : 1);
  }
  /// The stage that a message from (`out`) or to `stage` has on its other side; absent beyond the ends.
  [[nodiscard]] std::uint32_t other_stage(std::uint32_t stage, bool forward, bool out) const {
    if (forward == out) return stage + 1 < schedule_.stage_count ? stage + 1 : absent;
    return stage > 0 ? stage - 1 : absent;
  }
  [[nodiscard]] bool crosses(std::uint32_t stage, bool forward, bool out) const {
    const std::uint32_t other = other_stage(stage, forward, out);
    return other != absent && schedule_.rank_of[other] != schedule_.rank_of[stage];
  }
  /// The rank and cell number of what a cell waits for: the SEND of a RECV, the RECV of a WAIT_SEND.
  [[nodiscard]] std::pair<std::uint32_t, std::uint32_t> awaited_by(const CommunicationCell& cell) const {
    const bool forward = is_forward(cell.kind);
    const bool wait = is_send_wait(cell.kind);
    const std::uint32_t stage = other_stage(cell.stage, forward, wait);
    const Messages& messages = messages_[index(forward, stage, cell.microbatch)];
    return {schedule_.rank_of[stage], wait ? messages.receive : messages.send};
  }
  [[noreturn]] void fail(const std::string& place, const std::string& why) const {
    throw ScheduleError(fmt::format("{}: {}: {}", text_.name, place, why));
  }
  [[noreturn]] void fail_missing(std::uint32_t rank, std::uint32_t op, CommunicationKind kind) const {
    const Op& one = text_.order[rank][op];
    fail(text_.place(rank, op),
         fmt::format("{} is missing; in a file with SEND and RECV cells every message between ranks has both",
                     to_string(CommunicationCell{0, 0, one.microbatch, one.stage, kind})));
  }

  const OrderText& text_;
  const Schedule& schedule_;
  std::vector<Messages> messages_;    // by index(); empty without any message
  std::vector<std::uint32_t> heads_;  // [rank]: cells executed
};

void CommunicationCheck::find_messages(std::uint32_t rank) {
  const auto& cells = text_.communication[rank];
  for (std::uint32_t i = 0; i < cells.size(); ++i) {
    const CommunicationCell& cell = cells[i];
    const auto refuse = [&](const std::string& why) { fail(text_.place(rank, cell), why); };
    if (cell.stage >= schedule_.stage_count)
      refuse(fmt::format("there is no stage {}; the last one is {}", cell.stage, schedule_.stage_count - 1));
    if (schedule_.rank_of[cell.stage] != rank)
      refuse(fmt::format("stage {} is not on this rank", cell.stage));
    const bool wait = is_send_wait(cell.kind);
    if (!is_message(cell.kind) && !wait) continue;
    if (cell.microbatch >= schedule_.microbatches)
      refuse(
          fmt::format("there is no such op; the file has micro-batches 0 to {}", schedule_.microbatches - 1));
    if (messages_.empty()) messages_.resize(std::size_t{schedule_.stage_count} * schedule_.microbatches * 2);
    wait ? find_wait(rank, i) : find_message(rank, i);
  }
}

void CommunicationCheck::find_message(std::uint32_t rank, std::uint32_t number) {
  const CommunicationCell& cell = text_.communication[rank][number];
  const auto refuse = [&](const std::string& why) { fail(text_.place(rank, cell), why); };
  const bool forward = is_forward(cell.kind);
  const bool send = is_send(cell.kind);
  if (other_stage(cell.stage, forward, send) == absent) refuse("there is no stage on the other side");
  if (!crosses(cell.stage, forward, send)) refuse("both stages are on this rank, nothing is sent");
  Messages& messages = messages_[index(forward, cell.stage, cell.microbatch)];
  std::uint32_t& place = send ? messages.send : messages.receive;
  if (place != absent)
    refuse(fmt::format("is repeated, see {}", text_.place(rank, text_.communication[rank][place])));
  place = number;
}

// The cells of a row come in sequence, so its SEND is known by now.
void CommunicationCheck::find_wait(std::uint32_t rank, std::uint32_t number) {
  const CommunicationCell& cell = text_.communication[rank][number];
  Messages& messages = messages_[index(is_forward(cell.kind), cell.stage, cell.microbatch)];
  if (messages.send == absent)
    fail(text_.place(rank, cell), "no SEND of this stage and micro-batch stands before it");
  if (messages.wait != absent)
    fail(text_.place(rank, cell),
         fmt::format("is repeated, see {}", text_.place(rank, text_.communication[rank][messages.wait])));
  messages.wait = number;
}

void CommunicationCheck::check_row(std::uint32_t rank) const {
  const RankOrder& ops = text_.order[rank];
  for (std::uint32_t op = 0; op < ops.size(); ++op) {
    if (ops[op].kind == OpKind::backward_weight) continue;
    const bool forward = ops[op].kind == OpKind::forward;
    if (crosses(ops[op].stage, forward, false)) check_received(rank, op);
    if (crosses(ops[op].stage, forward, true)) check_sent(rank, op);
  }
}

void CommunicationCheck::check_sent(std::uint32_t rank, std::uint32_t op) const {
  const Op& one = text_.order[rank][op];
  const bool forward = one.kind == OpKind::forward;
  const std::uint32_t send = messages_[index(forward, one.stage, one.microbatch)].send;
  if (send == absent) fail_missing(rank, op, forward ? CommunicationKind::send_f : CommunicationKind::send_b);
  const CommunicationCell& cell = text_.communication[rank][send];
  if (cell.ops_before <= op)
    fail(text_.place(rank, cell), fmt::format("is sent before {} has run", text_.place(rank, op)));
}

void CommunicationCheck::check_received(std::uint32_t rank, std::uint32_t op) const {
  const Op& one = text_.order[rank][op];
  const bool forward = one.kind == OpKind::forward;
  const std::uint32_t receive = messages_[index(forward, one.stage, one.microbatch)].receive;
  if (receive == absent)
    fail_missing(rank, op, forward ? CommunicationKind::recv_f : CommunicationKind::recv_b);
  const CommunicationCell& cell = text_.communication[rank][receive];
  if (cell.ops_before > op)
    fail(text_.place(rank, op), fmt::format("runs before {}", text_.place(rank, cell)));
}

// Only a RECV or a WAIT_SEND can wait: what an op or a SEND needs stands before it in the same row.
void CommunicationCheck::play() {
  heads_.assign(schedule_.ranks, 0);
  std::vector<std::uint32_t> runnable;
  for (std::uint32_t rank = 0; rank < schedule_.ranks; ++rank) runnable.push_back(rank);
  while (!runnable.empty()) {
    const std::uint32_t rank = runnable.back();
    runnable.pop_back();
    advance(rank, runnable);
  }
}

void CommunicationCheck::advance(std::uint32_t rank, std::vector<std::uint32_t>& runnable) {
  const auto& cells = text_.communication[rank];
  for (std::uint32_t& head = heads_[rank]; head < cells.size(); ++head) {
    const CommunicationCell& cell = cells[head];
    if (!is_message(cell.kind) && !is_send_wait(cell.kind)) continue;
    if (!is_send(cell.kind)) {
      const auto [other, awaited] = awaited_by(cell);
      if (heads_[other] <= awaited) return;
    }
    if (!is_message(cell.kind)) continue;
    // the rank on the other side may wait for this cell
    const std::uint32_t stage = other_stage(cell.stage, is_forward(cell.kind), is_send(cell.kind));
    const std::uint32_t peer = schedule_.rank_of[stage];
    if (runnable.empty() || runnable.back() != peer) runnable.push_back(peer);
  }
}

void CommunicationCheck::fail_standstill(std::uint32_t rank) const {
  const std::string chain = describe_standstill(rank, [&](std::uint32_t waiting) {
    const CommunicationCell& cell = text_.communication[waiting][heads_[waiting]];
    const auto [other, awaited] = awaited_by(cell);
    return Wait{text_.place(waiting, cell), text_.place(other, text_.communication[other][awaited]), other};
  });
  throw ScheduleError(fmt::format(
      "{}: with SEND and RECV in this sequence, ranks wait for each other for ever:{}", text_.name, chain));
}

}  // namespace

void check_communication(const OrderText& text, const Schedule& schedule) {
  CommunicationCheck(text, schedule).check();
}

std::string communication_remark(const OrderText& text) {
  std::size_t count = 0;
  std::set<CommunicationKind> kinds;
  for (const auto& rank : text.communication) {
    count += rank.size();
    for (const CommunicationCell& cell : rank) kinds.insert(cell.kind);
  }
  if (count == 0) return "";
  std::string words;
  for (const CommunicationKind kind : kinds) {
    if (!words.empty()) words += ", ";
    words += to_string(kind);
  }
  return fmt::format(
      "{}: {} cells are checked but not run ({}): weft sends, waits and keeps weights and gradients by "
      "itself",
      text.name, count, words);
}

}  // namespace weft
