// V-Half and V-Min of arXiv 2405.15362: two stages per rank in V placement: rank r owns stage r (near) and
// stage 2p-1-r (far). Each rank repeats a pattern of six unit ops (F, I, W of both stages) per micro-batch;
// the offsets of the pattern bound how long an activation lives and so the memory. The list of a rank is what
// happens when the ops are played in unit steps: F and I follow the pattern, W fills the gaps.
#include <algorithm>
#include <array>
#include <optional>
#include <queue>
#include <utility>

#include "weft/scheduling/orders/orders.h"

namespace weft::orders {

namespace {

// The four lines of a pattern in the order in which a micro-batch runs through them on a rank.
enum Line { forward_near, forward_far, input_far, input_near, lines };
using Offsets = std::array<std::uint32_t, lines>;  // start of each line for micro-batch 0, in unit steps

constexpr std::uint32_t period = 6;

Offsets half_offsets(std::uint32_t r, std::uint32_t p) {
  const std::uint32_t gap = p % 2 == 0 ? 3 : 0;  // keeps the lines off each other's steps
  return {2 * r, 3 * p - r - 2, 3 * p + gap + 2 * r - 1, 6 * p + gap - r - 2};
}

Offsets min_offsets(std::uint32_t r, std::uint32_t p) {
  const std::uint32_t gap = p % 3 == 0 ? 2 : 0;
  return {r, 2 * p - r - 1, 2 * p + gap + r, 4 * p + gap - r - 1};
}

/// How far a rank may leave the pattern when its next op in it is not ready.
struct Freedom {
  bool forward = false;          ///< a later F may come first ...
  bool input = false;            ///< and so may a later I
  std::uint32_t kept_slots = 0;  ///< ... while more than this many slots stay free for the pattern's own F
};

class Player {
 public:
  Player(const Shape& shape, std::vector<Offsets> offsets, std::uint32_t slots, const Freedom& freedom)
      : p_(shape.ranks), m_(shape.microbatches), slots_(slots), freedom_(freedom), ranks_(p_) {
    for (std::uint32_t r = 0; r < p_; ++r) ranks_[r].offsets = offsets[r];
    ends_.assign(std::size_t{4} * p_ * m_, never);
  }

  /// The lists; nothing when the freedom leads into a deadlock.
  [[nodiscard]] std::optional<Order> play() {
    std::size_t left = std::size_t{period} * p_ * m_;
    for (; left > 0; ++now_) {
      const std::size_t before = left;
      for (std::uint32_t r = 0; r < p_; ++r) left -= step(r) ? 1 : 0;
      if (left == before) return std::nullopt;
    }
    Order order;
    for (Rank& rank : ranks_) order.push_back(std::move(rank.list));
    return order;
  }
  [[nodiscard]] std::uint32_t steps() const { return now_; }

 private:
  struct Rank {
    Offsets offsets{};
    std::array<std::uint32_t, lines> next{};  // micro-batch of each line
    std::queue<Op> pending;                   // I's whose W is to come
    std::uint32_t in_flight = 0;
    RankOrder list;
  };
  static constexpr std::uint32_t never = UINT32_MAX;

  static bool is_forward(Line line) { return line == forward_near || line == forward_far; }
  [[nodiscard]] std::uint32_t stage_of_line(std::uint32_t r, Line line) const {
    return line == forward_near || line == input_near ? r : 2 * p_ - 1 - r;
  }
  std::uint32_t& end_of(bool forward, std::uint32_t stage, std::uint32_t microbatch) {
    return ends_[(std::size_t{stage} * 2 + (forward ? 0 : 1)) * m_ + microbatch];
  }
  bool done(bool forward, std::uint32_t stage, std::uint32_t microbatch) {
    return end_of(forward, stage, microbatch) <= now_;
  }

  bool inputs_ready(std::uint32_t r, Line line) {
    const std::uint32_t stage = stage_of_line(r, line);
    const std::uint32_t k = ranks_[r].next[line];
    if (is_forward(line)) return stage == 0 || done(true, stage - 1, k);
    return done(true, stage, k) && (stage == 2 * p_ - 1 || done(false, stage + 1, k));
  }

  // The op of this step: the pattern's next op, else one that freedom allows, else a W.
  std::optional<Line> choose(std::uint32_t r) {
    const Rank& rank = ranks_[r];
    std::array<Line, lines> by_time{forward_near, forward_far, input_far, input_near};
    std::sort(by_time.begin(), by_time.end(), [&](Line a, Line b) {
      return rank.offsets[a] + period * rank.next[a] < rank.offsets[b] + period * rank.next[b];
    });
    bool first = true;
    for (const Line line : by_time) {
      if (rank.next[line] == m_) continue;
      const bool head = std::exchange(first, false);
      const bool may_lead = head || (is_forward(line) ? freedom_.forward : freedom_.input);
      const std::uint32_t kept = head ? 0 : freedom_.kept_slots;
      const bool fits = !is_forward(line) || rank.in_flight + kept < slots_;
      if (may_lead && fits && inputs_ready(r, line)) return line;
    }
    return std::nullopt;
  }

  bool step(std::uint32_t r) {
    Rank& rank = ranks_[r];
    if (const auto line = choose(r)) {
      const std::uint32_t stage = stage_of_line(r, *line);
      const OpKind kind = is_forward(*line) ? OpKind::forward : OpKind::backward_input;
      const Op op{rank.next[*line]++, static_cast<std::uint16_t>(stage), kind, false};
      end_of(is_forward(*line), stage, op.microbatch) = now_ + 1;
      is_forward(*line) ? void(++rank.in_flight) : rank.pending.push(op);
      rank.list.push_back(op);
      return true;
    }
    if (rank.pending.empty()) return false;
    Op weight = rank.pending.front();
    rank.pending.pop();
    weight.kind = OpKind::backward_weight;
    rank.list.push_back(weight);
    --rank.in_flight;
    return true;
  }

  std::uint32_t p_;
  std::uint32_t m_;
  std::uint32_t slots_;
  Freedom freedom_;
  std::uint32_t now_ = 0;
  std::vector<Rank> ranks_;
  std::vector<std::uint32_t> ends_;  // of F and I: (stage * 2 + kind) * m + micro-batch
};

// The shortest of a few degrees of freedom; the pure pattern always runs to its end.
Order shortest(const Shape& shape, const std::vector<Offsets>& offsets, std::uint32_t slots) {
  Order best;
  std::uint32_t least = UINT32_MAX;
  const auto attempt = [&](const Freedom& freedom) {
    Player player(shape, offsets, slots, freedom);
    auto order = player.play();
    if (!order || player.steps() >= least) return;
    least = player.steps();
    best = std::move(*order);
  };
  attempt({});
  for (const bool input : {false, true})
    for (std::uint32_t kept = 1; kept <= 4; ++kept) attempt({true, input, kept});
  return best;
}

}  // namespace

Order v_half(const Shape& shape) {
  std::vector<Offsets> offsets;
  for (std::uint32_t r = 0; r < shape.ranks; ++r) offsets.push_back(half_offsets(r, shape.ranks));
  return shortest(shape, offsets, 2 * ((shape.ranks + 2) / 2));
}

Order v_min(const Shape& shape) {
  std::vector<Offsets> offsets;
  for (std::uint32_t r = 0; r < shape.ranks; ++r) offsets.push_back(min_offsets(r, shape.ranks));
  return shortest(shape, offsets, 2 * ((shape.ranks + 4) / 3));
}

}  // namespace weft::orders
