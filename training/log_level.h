#pragma once
#include "weft/base/log.h"
#include "weft/training/config/nanotron_config.h"

namespace weft {

/// The configuration's logging.log_level for base/log.h.
[[nodiscard]] inline log::Level log_level_of(const NanotronConfig& config) {
  switch (config.logging.log_level) {
    case LogLevel::debug:
      return log::Level::debug;
    case LogLevel::info:
      return log::Level::info;
    case LogLevel::warning:
      return log::Level::warning;
    case LogLevel::error:
      return log::Level::error;
  }
  return log::Level::info;
}

}  // namespace weft
