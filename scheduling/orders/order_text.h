#pragma once
// Orders as text: PyTorch's CSV, one row per rank, one op per cell.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "weft/scheduling/op.h"

namespace weft {

/// What a cell of the format with communication says that is no op.
enum class CommunicationKind : std::uint8_t {
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

/// Such a cell, and where in its row it stands.
struct CommunicationCell {
  std::uint32_t ops_before = 0;  ///< that many ops of the rank come first
  std::uint32_t column = 0;      ///< from 1
  std::uint32_t microbatch = 0;  ///< of a SEND, RECV or WAIT_SEND
  std::uint16_t stage = 0;
  CommunicationKind kind = CommunicationKind::send_f;
};

/// A SEND or RECV.
[[nodiscard]] bool is_message(CommunicationKind kind);

/// The end of a SEND: its buffer is free.
[[nodiscard]] bool is_send_wait(CommunicationKind kind);

/// The word of such cells, for example `SEND_F`.
[[nodiscard]] std::string_view to_string(CommunicationKind kind);

/// The cell as text, for example `0SEND_F3` or `1UNSHARD`.
[[nodiscard]] std::string to_string(const CommunicationCell& cell);

/// An order together with the places it was read from, so that errors can point at the cell.
struct OrderText {
  std::string name;  ///< of the file or schedule, for messages
  Order order;
  std::vector<std::uint32_t> rows;                            ///< [rank]: line in the file, from 1
  std::vector<std::vector<std::uint32_t>> columns;            ///< [rank][op]: cell in the line, from 1
  std::vector<std::vector<CommunicationCell>> communication;  ///< [rank], in sequence

  /// For messages, for example "row 2, column 6 '1F3'".
  [[nodiscard]] std::string place(std::size_t rank, std::size_t op) const;
  [[nodiscard]] std::string place(std::size_t rank, const CommunicationCell& cell) const;
};

/// Reads a CSV in PyTorch's compute-only format or the one with communication (cells of the words of
/// CommunicationKind, which are checked but not run: the runtime knows what to send and when to wait). The
/// old spelling (B, W, BW for I, W, B) is recognised by its BW, or by a W in a file without I. Idle (empty)
/// cells, blank lines, CRLF, spaces, quotes and `#` comments are passed over. `name` stands in messages.
/// Throws ScheduleError with row, column and the cell's text. What the ops mean together is not checked here:
/// see check_order.
[[nodiscard]] OrderText read_order(std::string_view text, std::string_view name);

/// Reads the file at `path`, which may be a pipe. Throws ScheduleError when it cannot be read or is larger
/// than 64 MiB.
[[nodiscard]] OrderText read_order_file(const std::string& path);

/// An order that was generated, numbered as to_csv would print it.
[[nodiscard]] OrderText to_order_text(Order order, std::string_view name);

/// One rank's ops as the cells of a row: `0F1`, `(0F7;7B3)OVERLAP_F_B`.
[[nodiscard]] std::vector<std::string> to_cells(const RankOrder& order);

/// The compute-only CSV.
[[nodiscard]] std::string to_csv(const Order& order);

/// The CSV with communication, by PyTorch's rule: ranks in turn run their next op if its input is there; each
/// send stands right behind its op and the receive is appended to the peer's row at the same moment. `order`
/// has been checked; `rank_of[stage]` as in Schedule.
[[nodiscard]] std::string to_csv_with_communication(const Order& order,
                                                    const std::vector<std::uint32_t>& rank_of);

}  // namespace weft
