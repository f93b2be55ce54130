#include "weft/scheduling/orders/order_text.h"

#include <fmt/core.h>

#include "weft/scheduling/orders/check.h"

namespace weft {

namespace {

// Where a fused pair starts or a single op stands: the number of its cell, from 0.
std::vector<std::uint32_t> cell_numbers(const RankOrder& order) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(order.size());
  std::uint32_t cell = 0;
  for (const Op& op : order) {
    numbers.push_back(cell);
    if (!op.fused_with_next) ++cell;
  }
  return numbers;
}

std::string joined(const std::vector<std::string>& cells) {
  std::string line;
  for (const std::string& cell : cells) {
    if (!line.empty()) line += ',';
    line += cell;
  }
  return line + '\n';
}

std::string message_cell(std::uint32_t stage, CommunicationKind kind, std::uint32_t microbatch) {
  return to_string(CommunicationCell{0, 0, microbatch, static_cast<std::uint16_t>(stage), kind});
}

}  // namespace

bool is_message(CommunicationKind kind) { return kind <= CommunicationKind::recv_b; }

bool is_send_wait(CommunicationKind kind) {
  return kind == CommunicationKind::wait_send_f || kind == CommunicationKind::wait_send_b;
}

std::string_view to_string(CommunicationKind kind) {
  static constexpr std::string_view words[] = {"SEND_F",      "RECV_F",          "SEND_B",  "RECV_B",
                                               "WAIT_SEND_F", "WAIT_SEND_B",     "UNSHARD", "RESHARD",
                                               "REDUCE_GRAD", "WAIT_REDUCE_GRAD"};
  return words[static_cast<std::size_t>(kind)];
}

std::string to_string(const CommunicationCell& cell) {
  const std::string_view word = to_string(cell.kind);
  return is_message(cell.kind) || is_send_wait(cell.kind)
             ? fmt::format("{}{}{}", cell.stage, word, cell.microbatch)
             : fmt::format("{}{}", cell.stage, word);
}

std::string OrderText::place(std::size_t rank, std::size_t op) const {
  return fmt::format("row {}, column {} '{}'", rows[rank], columns[rank][op], to_string(order[rank][op]));
}

std::string OrderText::place(std::size_t rank, const CommunicationCell& cell) const {
  return fmt::format("row {}, column {} '{}'", rows[rank], cell.column, to_string(cell));
}

OrderText to_order_text(Order order, std::string_view name) {
  OrderText text;
  text.name = name;
  for (std::uint32_t rank = 0; rank < order.size(); ++rank) {
    text.rows.push_back(rank + 1);
    auto& columns = text.columns.emplace_back(cell_numbers(order[rank]));
    for (std::uint32_t& column : columns) ++column;
  }
  text.communication.resize(order.size());
  text.order = std::move(order);
  return text;
}

std::vector<std::string> to_cells(const RankOrder& order) {
  std::vector<std::string> cells;
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (order[i].fused_with_next && i + 1 < order.size()) {
      cells.push_back(fmt::format("({};{})OVERLAP_F_B", to_string(order[i]), to_string(order[i + 1])));
      ++i;
    } else {
      cells.push_back(to_string(order[i]));
    }
  }
  return cells;
}

std::string to_csv(const Order& order) {
  std::string text;
  for (const RankOrder& rank : order) text += joined(to_cells(rank));
  return text;
}

std::string to_csv_with_communication(const Order& order, const std::vector<std::uint32_t>& rank_of) {
  std::uint32_t microbatches = 0;
  for (const RankOrder& rank : order)
    for (const Op& op : rank) microbatches = std::max(microbatches, op.microbatch + 1);
  std::vector<std::vector<std::string>> rows(order.size());
  const auto cross = [&](std::uint32_t rank, std::uint32_t from, std::uint32_t to, std::uint32_t microbatch) {
    if (rank_of[to] == rank) return;
    const bool forward = from < to;
    const auto send = forward ? CommunicationKind::send_f : CommunicationKind::send_b;
    const auto receive = forward ? CommunicationKind::recv_f : CommunicationKind::recv_b;
    rows[rank].push_back(message_cell(from, send, microbatch));
    rows[rank_of[to]].push_back(message_cell(to, receive, microbatch));
  };
  const auto add_messages = [&](std::uint32_t rank, const Op& op) {
    if (op.kind == OpKind::forward && op.stage + 1u < rank_of.size())
      cross(rank, op.stage, op.stage + 1u, op.microbatch);
    if ((op.kind == OpKind::backward || op.kind == OpKind::backward_input) && op.stage > 0)
      cross(rank, op.stage, op.stage - 1u, op.microbatch);
  };
  for (const auto& [rank, position] : play_in_turns(order, rank_of, microbatches)) {
    const Op& op = order[rank][position];
    const RankOrder step(&op, &op + (op.fused_with_next ? 2 : 1));
    rows[rank].push_back(to_cells(step).front());
    for (const Op& part : step) add_messages(rank, part);
  }
  std::string text;
  for (const auto& cells : rows) text += joined(cells);
  return text;
}

}  // namespace weft
