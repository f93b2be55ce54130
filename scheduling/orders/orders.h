#pragma once
// The rules that produce the published orders. Each takes p ranks, v stages per rank and m micro-batches, all
// at least 1, and returns the order of every rank as published: a B is one op, no W is held. The placement
// and the allowed v and m are those of the schedule's entry in schedule.h, which checks them.
#include <cstdint>
#include <vector>

#include "weft/scheduling/op.h"

namespace weft::orders {

/// The size of a schedule.
struct Shape {
  std::uint32_t ranks;
  std::uint32_t chunks;  ///< stages per rank
  std::uint32_t microbatches;
};

/// All forward, then all backward, both in micro-batch order. GPipe, arXiv 1811.06965.
[[nodiscard]] Order afab(const Shape& shape);

/// One forward, one backward after a warm-up of min(m, p-1-r) F. Narayanan et al. 2021, arXiv 2104.04473.
[[nodiscard]] Order one_f_one_b(const Shape& shape);

/// 1F1B over several stages per rank, micro-batches in groups of about p. Megatron-LM and PyTorch, arXiv
/// 2104.04473; for any m by the rule of `groups`.
[[nodiscard]] Order interleaved_one_f_one_b(const Shape& shape);

/// Stage by stage, all micro-batches at a time; backward in reverse. Breadth-first pipeline, arXiv
/// 2211.05953.
[[nodiscard]] Order looped_bfs(const Shape& shape);

/// ZB-H1 of arXiv 2401.10241; with several stages per rank PyTorch's interleaved zero bubble.
[[nodiscard]] Order zb_h1(const Shape& shape);

/// ZB-H2 of arXiv 2401.10241. Its warm-up ends at m when m < 2p.
[[nodiscard]] Order zb_h2(const Shape& shape);

/// ZBV of arXiv 2405.15362; for m < 2p-1 the order for 2p-1 without the ops that do not exist.
[[nodiscard]] Order zbv(const Shape& shape);

/// DualPipeV (DeepSeek), two stages per rank in V placement; fused pairs are F and B. Needs m >= 2p.
[[nodiscard]] Order dualpipe_v(const Shape& shape);

/// V-Half of arXiv 2405.15362: at most 2 * ((p+2) div 2) pairs in flight per rank.
[[nodiscard]] Order v_half(const Shape& shape);

/// V-Min of arXiv 2405.15362: at most 2 * ((p+4) div 3) pairs in flight per rank.
[[nodiscard]] Order v_min(const Shape& shape);

/// The sizes of the groups in which interleaved schedules take their micro-batches: max(1, m div p) rounds,
/// the first (m mod rounds) groups one larger. PyTorch's groups where PyTorch allows m.
[[nodiscard]] std::vector<std::uint32_t> groups(std::uint32_t ranks, std::uint32_t microbatches);

/// The i-th F of an interleaved schedule, i from 0 to m*v-1: chunk by chunk within each group.
struct ChunkStep {
  std::uint32_t chunk;
  std::uint32_t microbatch;
};
[[nodiscard]] std::vector<ChunkStep> interleaved_steps(const Shape& shape);

}  // namespace weft::orders
