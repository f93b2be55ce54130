#include "weft/scheduling/orders/schedule.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "weft/base/error.h"
#include "weft/scheduling/orders/check.h"
#include "weft/scheduling/orders/order_text.h"
#include "weft/scheduling/orders/orders.h"
#include "weft/scheduling/policies/in_turn_policy.h"
#include "weft/scheduling/policies/ordered_policy.h"
#include "weft/scheduling/policies/ready_first_policy.h"
#include "weft/scheduling/weight_turns.h"

namespace weft {

namespace {

using Generator = Order (*)(const orders::Shape&);

constexpr std::pair<std::string_view, Generator> generators[] = {
    {"afab", orders::afab},
    {"1f1b", orders::one_f_one_b},
    {"interleaved_1f1b", orders::interleaved_one_f_one_b},
    {"looped_bfs", orders::looped_bfs},
    {"zb_h1", orders::zb_h1},
    {"zb_h2", orders::zb_h2},
    {"zbv", orders::zbv},
    {"dualpipe_v", orders::dualpipe_v},
    {"v_half", orders::v_half},
    {"v_min", orders::v_min},
};

Order generate(const ScheduleInfo& info, const orders::Shape& shape) {
  for (const auto& [name, generator] : generators)
    if (name == info.name) return generator(shape);
  return {};  // a dynamic schedule
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
  constexpr std::uint32_t stages_limit = std::numeric_limits<std::uint16_t>::max();
  const std::uint64_t stages = std::uint64_t{shape.ranks} * shape.chunks;
  if (stages > stages_limit) {
    const std::uint32_t most_chunks = stages_limit / shape.ranks;
    const std::string nearest = most_chunks < info.min_chunks
                                    ? fmt::format("{} ranks", stages_limit / info.min_chunks)
                                    : fmt::format("{} stages per rank", most_chunks);
    throw ScheduleError(
        fmt::format("{}: {} ranks x {} stages per rank are {} stages; at most {} are possible; nearest: {}",
                    info.name, shape.ranks, shape.chunks, stages, stages_limit, nearest));
  }
  constexpr std::uint64_t most_pairs = (std::uint64_t{1} << 32) / 3;  // each has an F, an I and a W
  if (stages * shape.microbatches > most_pairs)
    throw ScheduleError(
        fmt::format("{}: {} stages x {} micro-batches are too many ops; nearest: {} micro-batches", info.name,
                    stages, shape.microbatches, most_pairs / stages));
  if (info.name == "dualpipe_v" && shape.microbatches < 2 * shape.ranks)
    throw ScheduleError(
        fmt::format("dualpipe_v needs at least 2p micro-batches: {} ranks need {}, not {}; nearest: {}",
                    shape.ranks, 2 * shape.ranks, shape.microbatches, 2 * shape.ranks));
}

bool is_file(std::string_view name) {
  constexpr std::string_view ending = ".csv";
  return name.size() > ending.size() && name.substr(name.size() - ending.size()) == ending;
}

Schedule read_schedule(const ScheduleRequest& request) {
  Schedule schedule = check_order(read_order_file(request.schedule));
  const auto refuse = [&](const char* what, std::uint32_t found, std::uint32_t wanted) {
    if (wanted != 0 && found != wanted)
      throw ScheduleError(
          fmt::format("{}: the file is for {} {}, but there are {}", request.schedule, found, what, wanted));
  };
  refuse("ranks", schedule.ranks, request.ranks);
  refuse("micro-batches", schedule.microbatches, request.microbatches);
  for (const auto& stages : schedule.stages_of)
    refuse("stages per rank", static_cast<std::uint32_t>(stages.size()), request.chunks);
  return schedule;
}

Schedule generate_schedule(const ScheduleRequest& request) {
  const ScheduleInfo& info = schedule_info(request.schedule);
  const orders::Shape shape{request.ranks, request.chunks == 0 ? info.default_chunks : request.chunks,
                            request.microbatches};
  check_shape(info, shape);
  Schedule schedule;
  schedule.name = info.name;
  schedule.ranks = shape.ranks;
  schedule.stage_count = shape.ranks * shape.chunks;
  schedule.microbatches = shape.microbatches;
  schedule.dynamic = info.dynamic;
  schedule.stages_of = place_stages(shape.ranks, shape.chunks, info.placement);
  for (std::uint32_t stage = 0; stage < schedule.stage_count; ++stage)
    schedule.rank_of.push_back(rank_of(stage, shape.ranks, info.placement));
  schedule.order = generate(info, shape);
  if (!info.dynamic) count_slots(schedule);
  return schedule;
}

// A dynamic schedule has no peaks of its own: it is given slots. By default one per rank of the pipeline and
// stage, as much as ZB-H1 needs: fewer leave ranks idle even when nothing is late.
void give_windows(Schedule& schedule, const ScheduleRequest& request) {
  schedule.splits_backward = request.stages_split_backward;
  for (const auto& stages : schedule.stages_of) {
    const auto chunks = static_cast<std::uint32_t>(stages.size());
    const std::uint64_t most = std::uint64_t{chunks} * schedule.microbatches;
    const std::uint64_t wanted =
        request.max_in_flight != 0 ? request.max_in_flight : std::uint64_t{chunks} * schedule.ranks;
    const auto slots = static_cast<std::uint32_t>(std::min(most, wanted));
    RankPeaks& peaks = schedule.peaks.emplace_back();
    peaks.in_flight = slots;
    const std::vector<std::uint32_t> windows = share_slots(slots, chunks);
    for (std::uint32_t i = 0; i < chunks; ++i)
      peaks.stages.push_back(
          StagePeaks{stages[i], windows[i], windows[i], schedule.splits_backward ? windows[i] : 1});
  }
}

}  // namespace

Schedule make_schedule(const ScheduleRequest& request) {
  Schedule schedule = is_file(request.schedule) ? read_schedule(request) : generate_schedule(request);
  if (request.max_in_flight != 0) check_slots(schedule, request.max_in_flight);
  if (schedule.dynamic) give_windows(schedule, request);
  if (schedule.splits_backward && !request.stages_split_backward)
    throw ScheduleError(
        fmt::format("{} runs I and W apart, which these stages cannot; allowed: afab, 1f1b, interleaved_1f1b",
                    schedule.name));
  return schedule;
}

void count_slots(Schedule& schedule) {
  schedule.peaks.clear();
  schedule.splits_backward = false;
  for (const RankOrder& published : schedule.order) {
    const RankOrder moved = is_in_turn(published) ? RankOrder() : as_run(published);
    const RankOrder& executed = moved.empty() ? published : moved;
    schedule.peaks.push_back(count_peaks(executed));
    schedule.splits_backward = schedule.splits_backward ||
                               std::any_of(executed.begin(), executed.end(),
                                           [](const Op& op) { return op.kind == OpKind::backward_input; });
  }
}

void give_slots(Schedule& schedule, std::uint32_t pairs) {
  for (std::size_t rank = 0; rank < schedule.stages_of.size(); ++rank) {
    const auto& stages = schedule.stages_of[rank];
    if (pairs < stages.size())
      throw ScheduleError(fmt::format("rank {} has {} stages and {} slots; at least one each is needed", rank,
                                      stages.size(), pairs));
    const std::uint64_t most = std::uint64_t{stages.size()} * schedule.microbatches;
    RankPeaks& peaks = schedule.peaks[rank];
    peaks.in_flight = static_cast<std::uint32_t>(std::min<std::uint64_t>(most, pairs));
    for (StagePeaks& stage : peaks.stages)
      stage.in_flight = stage.activation_slots = stage.weight_slots = std::min(schedule.microbatches, pairs);
  }
}

std::unique_ptr<Policy> make_policy(const Schedule& schedule, std::uint32_t rank) {
  if (schedule.dynamic) {
    std::vector<std::uint32_t> windows;
    for (const StagePeaks& stage : schedule.peaks[rank].stages) windows.push_back(stage.in_flight);
    return std::make_unique<ReadyFirstPolicy>(std::move(windows), schedule.splits_backward);
  }
  auto ordered = std::make_unique<OrderedPolicy>(schedule.order[rank]);
  if (is_in_turn(schedule.order[rank])) return ordered;
  return std::make_unique<InTurnPolicy>(std::move(ordered), schedule.stages_of[rank], schedule.microbatches);
}

}  // namespace weft
