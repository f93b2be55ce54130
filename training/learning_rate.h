#pragma once
// Nanotron's learning-rate schedule.
#include <cstdint>

#include "weft/training/config/nanotron_config.h"

namespace weft {

/// The rate of optimizer step `step` (the first is 1). With s = step - 1: up to lr_warmup_steps it is lr * s
/// / warm-up (so the first step has rate 0) or lr
/// (`constant`); then lr until the decay starts; then the decay from lr to min_decay_lr over lr_decay_steps;
/// then min_decay_lr. Computed in double.
[[nodiscard]] double learning_rate(const NanotronConfig& config, std::uint64_t step);

}  // namespace weft
