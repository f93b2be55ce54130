#pragma once
// The unit of a schedule: one op of one stage on one micro-batch.
#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/phase.h"

namespace weft {

/// F: forward. B: full backward (I, then W). I: backward for the input. W: backward for the weights.
enum class OpKind : std::uint8_t { forward, backward, backward_input, backward_weight };

/// One op, 8 bytes. `fused_with_next` marks the first half of a fused pair (DualPipeV): this op and the one
/// that follows it in the order are one step.
struct Op {
  std::uint32_t microbatch = 0;
  std::uint16_t stage = 0;
  OpKind kind = OpKind::forward;
  bool fused_with_next = false;

  friend auto operator<=>(const Op&, const Op&) = default;
};
static_assert(sizeof(Op) == 8);

/// The op as text, for example `3F1`: stage, kind (F, B, I or W), micro-batch.
[[nodiscard]] std::string to_string(const Op& op);

/// The ops of one rank in sequence.
using RankOrder = std::vector<Op>;

/// The orders of all ranks: order[rank].
using Order = std::vector<RankOrder>;

}  // namespace weft
