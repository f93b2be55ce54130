#pragma once
// The SEND and RECV cells of an order.
#include <string>

#include "weft/scheduling/orders/order_text.h"
#include "weft/scheduling/orders/schedule.h"

namespace weft {

/// Checks the cells of `text` that are no ops; `schedule` says who owns its stages, and its ops have been
/// checked. Every such cell is of a stage of its rank. With SEND or RECV cells, every message that crosses
/// ranks has both, once, behind the op that makes it and before the op that needs it; and executed in
/// sequence, where a RECV waits for its SEND and a WAIT_SEND, which stands behind its SEND, for the RECV (as
/// PyTorch's simulator of schedules does), the ranks come to their end.
/// Throws ScheduleError naming the cells; a standstill as the chain that waits for itself.
void check_communication(const OrderText& text, const Schedule& schedule);

/// Says which of these cells a run passes over and why; empty without any.
[[nodiscard]] std::string communication_remark(const OrderText& text);

}  // namespace weft
