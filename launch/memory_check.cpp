#include "weft/launch/memory_check.h"

#include <fmt/core.h>

namespace weft {
namespace {

/// Whether it does so unasked: a signal makes any training save.
bool saves(const CheckpointsConfig& checkpoints) {
  return checkpoints.checkpoint_interval || checkpoints.save_initial_state || checkpoints.save_final_state;
}

}  // namespace

void check_memory(const PipelinePlan& plan, const NanotronConfig& config, std::uint64_t usable,
                  const ConfigSources& sources) {
  double all = 0;  // in floating point: each rank's bytes fit 64 bits, those of all may not
  double most = 0;
  double weights = 0;  // of the fullest rank
  std::uint32_t fullest = 0;
  for (std::uint32_t rank = 0; rank < plan.schedule.ranks; ++rank) {
    const RankMemory memory = plan.memory(rank);
    const std::uint64_t copy = saves(config.checkpoints) ? memory.checkpoint_copy : 0;
    const double bytes = static_cast<double>(memory.total() + copy);
    all += bytes;
    if (bytes <= most) continue;
    fullest = rank;
    most = bytes;
    weights = static_cast<double>(memory.parameters + memory.gradients + memory.packed_weights +
                                  memory.optimizer + copy);
  }
  if (all <= static_cast<double>(usable)) return;
  const bool too_many_weights = weights > most / 2;
  const std::string key = too_many_weights ? "model.model_config" : "tokens.micro_batch_size";
  throw config_error(
      sources.find(key), key,
      fmt::format(
          "rank {} alone takes {:.0f} bytes, all ranks {:.0f}; this machine can hold {} with its swap",
          fullest, most, all, usable),
      too_many_weights ? "fewer layers, smaller layers or a smaller vocabulary"
                       : "a smaller micro-batch, a shorter sequence, or fewer micro-batches in flight (1f1b, "
                         "pipeline_parallel.max_in_flight)");
}

}  // namespace weft
