#include "weft/training/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace weft {

double learning_rate(const NanotronConfig& config, std::uint64_t step) {
  const LearningRateConfig& c = config.optimizer.learning_rate_scheduler;
  const double lr = c.learning_rate;
  const double lowest = c.min_decay_lr.value_or(lr);
  const auto warmup = static_cast<double>(c.lr_warmup_steps);
  const double start = static_cast<double>(c.lr_decay_starting_step.value_or(c.lr_warmup_steps));
  const double decay = static_cast<double>(
      c.lr_decay_steps.value_or(std::max<std::int64_t>(0, config.tokens.train_steps - c.lr_warmup_steps)));
  const auto s = static_cast<double>(step - 1);
  if (s <= warmup && warmup > 0) return c.lr_warmup_style == WarmupStyle::linear ? lr * s / warmup : lr;
  if (s < start) return lr;
  if (s < start + decay) {
    const double progress = (s - start) / decay;
    switch (c.lr_decay_style) {
      case DecayStyle::linear:
        return lowest + (lr - lowest) * (1.0 - progress);
      case DecayStyle::cosine:
        return lowest + (lr - lowest) * (1.0 + std::cos(std::numbers::pi * progress)) / 2.0;
      case DecayStyle::one_minus_sqrt:
        return lowest + (lr - lowest) * (1.0 - std::sqrt(progress));
    }
  }
  return lowest;
}

}  // namespace weft
