#pragma once
// Says whether an order can run, and if not, why.
#include <cstdint>

#include "weft/scheduling/orders/order_text.h"
#include "weft/scheduling/orders/schedule.h"

namespace weft {

/// Checks every rule and counts the slots. Throws ScheduleError naming the cells: a stage on two ranks or
/// missing, a repeated or missing op, F after its backward, W before its I, and a cycle between ranks,
/// printed as the chain that waits for itself. Then the cells about communication: see communication_check.h.
[[nodiscard]] Schedule check_order(const OrderText& text);

/// The smallest number of slots per rank with which the order (as run) does not deadlock: the largest peak.
[[nodiscard]] std::uint32_t smallest_slots(const Schedule& schedule);

/// Throws ScheduleError when `schedule`, with `slots` slots per rank, comes to a standstill: names the F that
/// never gets a slot and the smallest number that works. `text` gives the places and may be null.
void check_slots(const Schedule& schedule, std::uint32_t slots, const OrderText* text = nullptr);

/// Without durations: the order in which ops (fused pairs together) can run when ranks take turns, as (rank,
/// position of the op in its list). Ends early at a standstill, so all ops are there only for an order
/// without a cycle.
struct Turn {
  std::uint32_t rank;
  std::uint32_t position;
};
[[nodiscard]] std::vector<Turn> play_in_turns(const Order& order, const std::vector<std::uint32_t>& rank_of,
                                              std::uint32_t microbatches);

}  // namespace weft
