#include "weft/scheduling/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "weft/base/error.h"
#include "weft/scheduling/in_turn_policy.h"
#include "weft/scheduling/ordered_policy.h"
#include "weft/scheduling/orders.h"
#include "weft/scheduling/weight_turns.h"

namespace weft {

namespace {

Order generate(const ScheduleInfo& info, const orders::Shape& shape) {
  if (info.name == "afab") return orders::afab(shape);
  if (info.name == "1f1b") return orders::one_f_one_b(shape);
  throw ScheduleError(fmt::format("schedule {} has no generator", info.name));
}

void check_shape(const ScheduleInfo& info, const orders::Shape& shape) {
  if (shape.ranks == 0) throw ScheduleError(fmt::format("{}: ranks is 0; at least 1 is needed", info.name));
  if (shape.microbatches == 0)
    throw ScheduleError(fmt::format("{}: micro-batches is 0; at least 1 is needed", info.name));
  if (shape.chunks < info.min_chunks || shape.chunks > info.max_chunks)
    throw ScheduleError(fmt::format("{} needs {} {} stage{} per rank, but chunks is {}; nearest: {}",
                                    info.name, info.min_chunks == info.max_chunks ? "exactly" : "at least",
                                    info.min_chunks, info.min_chunks == 1 ? "" : "s", shape.chunks,
                                    std::clamp(shape.chunks, info.min_chunks, info.max_chunks)));
  constexpr std::uint64_t most_stages = std::numeric_limits<std::uint16_t>::max();
  const std::uint64_t stages = std::uint64_t{shape.ranks} * shape.chunks;
  if (stages > most_stages)
    throw ScheduleError(
        fmt::format("{}: {} ranks x {} stages per rank are {} stages; at most {} are possible", info.name,
                    shape.ranks, shape.chunks, stages, most_stages));
  constexpr std::uint64_t most_ops = std::uint64_t{1} << 32;
  if (stages * shape.microbatches > most_ops / 3)
    throw ScheduleError(fmt::format("{}: {} stages x {} micro-batches are too many ops (at most {})",
                                    info.name, stages, shape.microbatches, most_ops));
}

}  // namespace

Schedule make_schedule(const ScheduleRequest& request) {
  const ScheduleInfo& info = schedule_info(request.schedule);
  const orders::Shape shape{request.ranks, request.chunks == 0 ? info.default_chunks : request.chunks,
                            request.microbatches};
  check_shape(info, shape);
  Schedule schedule;
  schedule.name = info.name;
  schedule.ranks = shape.ranks;
  schedule.stage_count = shape.ranks * shape.chunks;
  schedule.microbatches = shape.microbatches;
  schedule.splits_backward = info.splits_backward;
  schedule.dynamic = info.dynamic;
  schedule.stages_of = place_stages(shape.ranks, shape.chunks, info.placement);
  for (std::uint32_t stage = 0; stage < schedule.stage_count; ++stage)
    schedule.rank_of.push_back(rank_of(stage, shape.ranks, info.placement));
  schedule.order = generate(info, shape);
  for (const RankOrder& executed : as_run(schedule.order)) schedule.peaks.push_back(count_peaks(executed));
  return schedule;
}

std::unique_ptr<Policy> make_policy(const Schedule& schedule, std::uint32_t rank) {
  auto ordered = std::make_unique<OrderedPolicy>(schedule.order[rank]);
  return std::make_unique<InTurnPolicy>(std::move(ordered), schedule.stages_of[rank], schedule.microbatches);
}

}  // namespace weft
