#pragma once
// When every op of a rank ran, in few bytes.
#include <cstdint>
#include <vector>

#include "weft/base/clock.h"
#include "weft/scheduling/op.h"

namespace weft {

/// The ops of one rank with their times, in the order in which they ended: some 8 bytes an op, so that a plan
/// of millions of ops can be drawn.
class RankTimeline {
 public:
  /// So many ops will come.
  void expect(std::size_t ops) { bytes_.reserve(8 * ops); }

  void add(const Op& op, Nanoseconds start, Nanoseconds end) {
    put(static_cast<std::uint64_t>(op.microbatch) << 3 | static_cast<std::uint64_t>(op.kind) << 1 |
        (op.fused_with_next ? 1u : 0u));
    put(static_cast<std::uint16_t>(op.stage - last_stage_));  // mostly the same one again
    last_stage_ = op.stage;
    const Nanoseconds gap = start - last_end_;  // negative where a file says that ops overlap
    put(static_cast<std::uint64_t>(gap) << 1 ^ (gap < 0 ? ~std::uint64_t{0} : 0));
    put(static_cast<std::uint64_t>(end - start));
    last_end_ = end;
  }

  /// Calls `see(op, start, end)` for every op.
  template <class See>
  void for_each(See see) const {
    std::uint16_t stage = 0;
    Nanoseconds last_end = 0;
    for (const std::uint8_t* at = bytes_.data(); at != bytes_.data() + bytes_.size();) {
      const std::uint64_t word = take(at);
      stage = static_cast<std::uint16_t>(stage + take(at));
      const Op op{static_cast<std::uint32_t>(word >> 3), stage, static_cast<OpKind>(word >> 1 & 3),
                  (word & 1) != 0};
      const std::uint64_t gap = take(at);
      const Nanoseconds start = last_end + static_cast<Nanoseconds>(gap >> 1 ^ (0 - (gap & 1)));
      last_end = start + static_cast<Nanoseconds>(take(at));
      see(op, start, last_end);
    }
  }

  [[nodiscard]] RankOrder order() const {
    RankOrder ops;
    for_each([&](const Op& op, Nanoseconds, Nanoseconds) { ops.push_back(op); });
    return ops;
  }

 private:
  // Seven bits a byte, the lowest first; the highest bit says that more follow.
  void put(std::uint64_t value) {
    for (; value >= 128; value >>= 7) bytes_.push_back(static_cast<std::uint8_t>(value | 128));
    bytes_.push_back(static_cast<std::uint8_t>(value));
  }
  static std::uint64_t take(const std::uint8_t*& at) {
    std::uint64_t value = 0;
    unsigned shift = 0;
    for (; *at >= 128; ++at, shift += 7) value |= static_cast<std::uint64_t>(*at & 127u) << shift;
    return value | static_cast<std::uint64_t>(*at++) << shift;
  }

  std::vector<std::uint8_t> bytes_;
  std::uint16_t last_stage_ = 0;
  Nanoseconds last_end_ = 0;
};

}  // namespace weft
